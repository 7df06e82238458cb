"""Which old data joins the fresh groups of a step."""
