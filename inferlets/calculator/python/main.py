"""Answers a question by arithmetic: the model writes an expression in a language of our own, and
the inferlet evaluates it."""

import math

from inferlet import Context, Ebnf, Model, Sampler, runtime

# The text is complete with its "=".
LANGUAGE = Ebnf(r"""
start: expression "="
expression: term (("+" | "-") term)*
term: factor (("*" | "/") factor)*
factor: NUMBER | "(" expression ")"
NUMBER: /(0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?/
""")


class Calculator:
    """Evaluates a text of the language, rule by rule. There are no syntax errors to look for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, choices: str) -> str:
        """The next character if it is one of these; else nothing."""
        found = self.text[self.at]
        self.at += found in choices
        return found if found in choices else ""

    def expression(self) -> float:
        value = self.term()
        while operator := self.take("+-"):
            value = value + self.term() if operator == "+" else value - self.term()
        return value

    def term(self) -> float:
        value = self.factor()
        while operator := self.take("*/"):
            factor = self.factor()
            value = value * factor if operator == "*" else value / factor if factor else math.nan
        return value

    def factor(self) -> float:
        if self.take("("):
            value = self.expression()
            self.take(")")
            return value
        digits = ""
        while digit := self.take("0123456789."):
            digits += digit
        return float(digits)


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    max_tokens = input.get("max_tokens", 200)
    with Context(model) as ctx:
        ctx.system("Answer with an arithmetic expression and an equals sign, such as (2+3)*4=")
        ctx.user(input["question"])
        sampler = Sampler.top_p(input.get("temperature", 0), 0.95, seed=input.get("seed"))
        text = await ctx.generate(sampler, constrain=LANGUAGE, max_tokens=max_tokens).collect_text()
    if not text.endswith("="):
        raise ValueError(f"the expression is not complete after {max_tokens} tokens: {text}")
    value = Calculator(text).expression()
    if not math.isfinite(value):
        raise ValueError(f"the expression divides by zero or is too large: {text}")
    return {"expression": text[:-1], "value": value}
