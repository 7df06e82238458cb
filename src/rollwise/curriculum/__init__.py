"""Which prompts a step draws."""
