"""Recursive descent over LaTeX tokens: one expression to its exact `Quotient`. Raises Unreadable where it cannot.

`1/2x` is (1/2)x, `10\\frac{1}{12}` a mixed number, `10^23` has the exponent 23, `\\frac43` is 4/3, `\\sqrt13` is the
root of 13, `1e2` is 100. A letter before a parenthesis multiplies, but f, g, h and E, F, G, O, P, Q name functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import factorial

from rollwise.verify import algebra
from rollwise.verify.algebra import Quotient
from rollwise.verify.functions import MAX_DIGITS, absolute, applied, binomial, decimal, integer, opaque, symbol
from rollwise.verify.latex import Different, Token, Unreadable, names

FUNCTIONS = names("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth ln log exp det gcd lcm max min arg")
NAMED = frozenset("fghEFGOPQ")
GREEK = names(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "square bullet triangle star diamond "
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega pi infty ell hbar"
)
MAX_PRODUCTS = 600  # of terms, in one expression
CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}


class Expression:
    """A cursor over tokens without spaces. `parse` must use them all up."""

    def __init__(self, tokens: Sequence[Token], factorial_limit: int) -> None:
        self.tokens = [t for t in tokens if t.kind != "space"]
        self.at = 0
        self.factorial_limit = factorial_limit
        self.arguments = 0  # of functions, that are open: only there is a degree no unit
        self.products = 0  # of terms, so far

    def parse(self) -> Quotient:
        value = self.sum()
        if self.at < len(self.tokens):
            raise Unreadable(f"'{self.tokens[self.at].text[:20]}' not expected")
        return value

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def is_sign(self, *signs: str) -> bool:
        return self.kind() == "sign" and self.peek() in signs

    def is_command(self, *names: str) -> bool:
        return self.kind() == "command" and self.peek() in names

    def take(self) -> Token:
        if self.at >= len(self.tokens):
            raise Unreadable("ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, sign: str) -> None:
        if not self.is_sign(sign):
            raise Unreadable(f"'{sign}' missing")
        self.at += 1

    def spend(self, a: Quotient, b: Quotient) -> None:
        self.products += algebra.cost(a, b)
        if self.products > MAX_PRODUCTS:
            raise algebra.TooHard("terms")

    def sum(self) -> Quotient:
        value = self.signed_product()
        while self.is_sign("+", "-"):
            minus = self.take().text == "-"
            term = self.product()
            if value.bottom != term.bottom:
                self.spend(value, term)
            value = algebra.add(value, algebra.negative(term) if minus else term)
        return value

    def signed_product(self) -> Quotient:
        minus = False
        while self.is_sign("+", "-"):
            minus ^= self.take().text == "-"
        value = self.product()
        return algebra.negative(value) if minus else value

    def product(self) -> Quotient:
        value = self.factor()
        while True:
            divide = self.is_sign("/")
            if divide or self.is_sign("*") or self.is_command("cdot", "times"):
                self.at += 1
                factor = self.signed_factor()
            elif self.starts_factor():
                factor = self.factor()
            else:
                return value
            self.spend(value, factor)
            value = algebra.over(value, factor) if divide else algebra.times(value, factor)

    def signed_factor(self) -> Quotient:
        if self.is_sign("-"):
            self.at += 1
            return algebra.negative(self.factor())
        return self.factor()

    def starts_factor(self) -> bool:
        if self.kind() == "number":  # digits beside a value, as in "5 4", are no product
            before, after = self.tokens[self.at - 1], self.tokens[self.at + 1 : self.at + 2]
            raised = bool(after) and after[0].text == "^"  # n2^n
            return before.text in (")", "}") or (before.kind == "letter" and raised)
        if self.kind() == "letter":
            return True
        if self.kind() == "command":
            return self.peek() in GREEK or self.peek() in FUNCTIONS or self.peek() in (
                "frac", "sqrt", "binom", "lfloor", "lceil", "mathbb"
            )  # fmt: skip
        return self.is_sign("(", "{", "[")

    def factor(self) -> Quotient:
        base = self.atom()
        while True:
            if self.is_sign("^"):
                self.at += 1
                if self.is_degree():
                    base = algebra.times(base, symbol("^\\circ")) if self.arguments else base
                    continue
                base = algebra.power(base, self.exponent())
            elif self.is_sign("!"):
                self.at += 1
                base = self.factorial(base)
            elif self.is_sign("'"):
                raise Different("a prime")
            else:
                return base

    def is_degree(self) -> bool:
        """Takes `\\circ` or `{\\circ}` after a `^`: degrees are a unit."""
        texts = [t.text for t in self.tokens[self.at : self.at + 3]]
        if texts[:1] == ["circ"]:
            self.at += 1
        elif texts == ["{", "circ", "}"]:
            self.at += 3
        else:
            return False
        return True

    def exponent(self) -> Quotient:
        if self.is_sign("{", "("):
            return self.group()
        minus = self.is_sign("-")
        self.at += minus
        token = self.take()
        if token.kind == "number":
            value = algebra.number(integer(token.text))
        elif token.kind == "letter" or token.text in GREEK:
            value = symbol(token.text)
        elif token.text == "frac":
            self.at -= 1
            value = self.atom()
        else:
            raise Unreadable("exponent")
        return algebra.negative(value) if minus else value

    def factorial(self, base: Quotient) -> Quotient:
        n = algebra.rational(base)
        if n is None:
            return opaque("!", base)
        if n.denominator != 1 or n < 0:
            raise Unreadable("factorial")
        if n > self.factorial_limit:
            raise algebra.TooLarge(f"factorial over {self.factorial_limit}")
        return algebra.number(factorial(n.numerator))

    def atom(self) -> Quotient:
        token = self.take()
        if token.kind == "number" or (token.text == "." and self.kind() == "number"):
            return self.number(token)
        if token.kind == "letter":
            return self.letter(token.text)
        if token.kind == "text" and token.text.isascii() and token.text.isalpha() and len(token.text) <= 3:
            product = algebra.number(1)  # \\mathrm{gb}
            for name in token.text:
                product = algebra.times(product, symbol(name))
            return product
        if token.kind == "sign" and token.text in ("(", "{", "["):
            self.at -= 1
            return self.group()
        if token.kind == "sign" and token.text == "|":
            inside = self.sum()
            self.expect("|")
            return absolute(inside)
        if token.kind == "command":
            return self.command(token.text)
        raise Unreadable(f"'{token.text[:20]}' not expected")

    def group(self) -> Quotient:
        closer = CLOSERS[self.take().text]
        value = self.sum()
        self.expect(closer)
        return value

    def number(self, token: Token) -> Quotient:
        whole, decimals, repeating = token.text, "", ""
        if token.text == ".":
            whole, decimals = "0", self.take().text
        elif self.is_sign(".") and self.at + 1 < len(self.tokens):
            after = self.tokens[self.at + 1]
            if after.kind == "number":
                self.at += 2
                decimals = after.text
            elif after.text in ("overline", "dot"):
                self.at += 1
            else:
                raise Unreadable("a point without digits")
        if self.is_command("overline", "dot") and self.tokens[self.at - 1].text in (".", decimals):
            self.at += 1
            repeating = self.digits_group()
        value = decimal(whole, decimals, repeating)
        if self.kind() == "letter" and self.peek() in "eE":
            value = self.scientific(value)
        elif not decimals and self.is_command("frac"):
            value += self.mixed()
        return algebra.number(value)

    def digits_group(self) -> str:
        braced = self.is_sign("{")
        self.at += braced
        token = self.take()
        if token.kind != "number":
            raise Unreadable("repeating decimals")
        if braced:
            self.expect("}")
        return token.text

    def scientific(self, value: Fraction) -> Fraction:
        """`e` with a whole number directly after it is a power of ten."""
        at = self.at + 1
        minus = at < len(self.tokens) and self.tokens[at].text == "-"
        at += at < len(self.tokens) and self.tokens[at].text in ("-", "+")
        if at < len(self.tokens) and self.tokens[at].kind == "number":
            power = integer(self.tokens[at].text)
            if power > MAX_DIGITS:
                raise algebra.TooLarge("number too large")
            self.at = at + 1
            return value * Fraction(10) ** (-power if minus else power)
        return value

    def mixed(self) -> Fraction:
        """The fraction of a mixed number: `\\frac{a}{b}` of whole numbers, a < b, directly after one; else 0."""
        start = self.at
        self.at += 1
        try:
            part = algebra.rational(self.argument())
            whole = algebra.rational(self.argument())
        except Unreadable:
            part = whole = None
        if part and whole and part.denominator == whole.denominator == 1 and 0 < part < whole and not self.is_sign("^"):
            return part / whole
        self.at = start
        return Fraction(0)

    def letter(self, name: str) -> Quotient:
        head = name
        while self.is_sign("'"):
            self.at += 1
            name += "'"
        if head in NAMED and self.inverse():
            return opaque(name + "^-1", self.group())
        if head in NAMED and self.is_sign("("):
            return opaque(name, self.group())
        if self.is_sign("_"):
            self.at += 1
            name += "_" + self.subscript()
        return symbol(name)

    def inverse(self) -> bool:
        """Takes the exponent of f^{-1}(x), which is no power."""
        texts = [t.text for t in self.tokens[self.at : self.at + 6]]
        for written in (["^", "{", "-", "1", "}", "("], ["^", "-", "1", "("]):
            if texts[: len(written)] == written:
                self.at += len(written) - 1
                return True
        return False

    def subscript(self) -> str:
        if not self.is_sign("{"):
            return self.take().text
        start = self.at + 1
        while not self.is_sign("}"):
            self.take()
        self.at += 1
        return " ".join(t.text for t in self.tokens[start : self.at - 1])

    def argument(self) -> Quotient:
        """The argument of `\\frac`: a group, or one digit or letter."""
        if self.is_sign("{"):
            return self.group()
        token = self.take()
        if token.kind == "number" and len(token.text) > 1:
            self.at -= 1
            self.tokens[self.at] = Token("number", token.text[1:])
            return algebra.number(int(token.text[0]))
        self.at -= 1
        return self.atom() if token.kind != "number" else algebra.number(integer(self.take().text))

    def command(self, name: str) -> Quotient:
        if name in GREEK:
            return self.letter("\\" + name)
        if name == "frac":
            top = self.argument()
            value = algebra.over(top, self.argument())
            if self.kind() == "number" and self.tokens[self.at - 1].text != "}":
                raise Different("digits behind a fraction")
            return value
        if name == "sqrt":
            return self.root()
        if name == "binom":
            return binomial(self.argument(), self.argument(), self.factorial_limit)
        if name in ("lfloor", "lceil"):
            inside = self.sum()
            if not self.is_command("rfloor" if name == "lfloor" else "rceil"):
                raise Unreadable("bracket not closed")
            self.at += 1
            plain = algebra.rational(inside)
            if plain is None:
                return opaque(name, inside)
            down = plain.numerator // plain.denominator
            return algebra.number(down if name == "lfloor" or plain == down else down + 1)
        if name in FUNCTIONS:
            return self.function(name)
        if name.startswith("mathbb "):
            return symbol(name)
        raise Unreadable(f"\\{name[:20]}")

    def root(self) -> Quotient:
        degree = algebra.number(2)
        if self.is_sign("["):
            degree = self.group()
        inside = self.group() if self.is_sign("{", "(") else self.atom()
        return algebra.power(inside, algebra.over(algebra.number(1), degree))

    def function(self, name: str) -> Quotient:
        """`\\sin^2 x`, `\\log_2 n`, `\\ln 2x`: without parentheses the argument ends at a function or sign."""
        outer: Quotient | None = None
        base: Quotient | None = None
        for _ in range(2):
            if self.is_sign("_"):
                self.at += 1
                base = self.argument()
            elif self.is_sign("^"):
                self.at += 1
                outer = self.exponent()
        self.arguments += 1
        if self.is_sign("(", "{"):
            inside = self.group()
            if self.is_sign("^") and [t.text for t in self.tokens[self.at + 1 : self.at + 2]] == ["circ"]:
                self.at += 2
                inside = algebra.times(inside, symbol("^\\circ"))
        else:
            inside = self.factor()
            while self.starts_factor() and not (self.kind() == "command" and self.peek() in FUNCTIONS):
                inside = algebra.times(inside, self.factor())
        self.arguments -= 1
        if outer is not None and algebra.rational(outer) == -1:  # \sin^{-1} x is arcsin x
            return applied("arc" + name, base, inside)
        value = applied(name, base, inside)
        return value if outer is None else algebra.power(value, outer)
