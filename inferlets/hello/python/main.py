"""The smallest inferlet: input in, answer out, no model."""


async def main(input: dict) -> str:
    return f"Hello, {input.get('name', 'world')}!"
