"""Texts that tokenizers disagree about: many scripts, emoji, code, numbers, runs of whitespace."""

from __future__ import annotations

import random

SENTENCES = (
    "The quick brown fox jumps over the lazy dog. It's 5 o'clock, they'll say; we'D go, I'M in.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich — 12.345,67 € für 3½ Äpfel.",
    "Voix ambiguë d'un cœur qui au zéphyr préfère les jattes de kiwis… « l'œuvre » n° 10⁻³",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. 2024 год",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΚΕΦΑΛΑΊΑ",
    "دمت بخير، أَبْجَدِيَّة عربية ١٢٣٤ ؟",
    "שפן אכל קצת גזר בטעם חסה, ודי 42",
    "नमस्ते दुनिया, यह हिन्दी है। १२३",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ๑๒๓",
    "我想在apple工作1314151天～,今天天气很好。繁體字也有",
    "日本語のテキスト、カタカナとひらがな、漢字１２３。",
    "한국어 문장입니다. 띄어쓰기가 있어요 3개.",
    "កាន់តែពិសេសអាចខលចេញ Tiếng Việt có dấu",
    "🚀 (normal) 😶‍🌫️ 👨‍👩‍👧‍👦 🇩🇪 ✅ 🏳️‍🌈 👍🏽",
    "e\u0301 a\u0300 n\u0303 \u00e9 \u212b \u2126 ﬁ ﬂ Ⅷ ² ½ ① \u00ad\u200b\u200d\ufeff",
    "\ud7a3\u1112\u1161\u11ab ﷺ 𝒜𝓑𝔠 𐍈𐌰 𓀀 ꙮ",
    'def f(x: int) -> str:\n\treturn f"{x:>08b}"  # comment\n\n\nclass A(B):\n    pass\r\n',
    "#include <vector>\nint main() { std::vector<int> v{1,2,3}; return v[0]&&!v[1] ? 0x7fUL;",
    "SELECT * FROM t WHERE a<>'b' AND c>=10; -- ok\n<html><body class=\"x\">&nbsp;</body></html>",
    "https://example.org/a_b-c?d=%20e&f=1#g user@example.org C:\\temp\\new $PATH ${HOME} ~/.x",
    "camelCase snake_case SCREAMING_CASE XMLHttpRequest iPhone15Pro v1.2.3-rc.4+build.5",
    "0 1 12 123 1234 12345 123456 1234567 1,234,567.89 3.14159 1e10 0b1010 0xDEADBEEF 1٢३",
    "don't DON'T won't I'LL they'Re 'tis ''quoted'' 'S 'ſ rock'n'roll",
    "\u00a0nbsp\u2003em\u3000ideographic\u2028line\u0085next\x0bvt\x0cff\x1c",
    "=====-----_____.....!!!!!?????*****#####//////\\\\\\\\",
    "\u0000\u0001\u001f\u007f\u0080\u009f",
    "<0x41><0x0A> ▁▁x ▁ Ġ Ċ ##ing </w> [UNK] <unk>",
)

SPACES = tuple(
    unit * count
    for unit in (" ", "\n", "\t", "\r\n", " \n", "\n ", "\u3000")
    for count in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33)
)


def texts(seed: int = 7) -> list[str]:
    """Random texts, the same in every run."""
    chance = random.Random(seed)
    made = ["", *SENTENCES, *SPACES]
    made += [space + "x" for space in SPACES] + ["x" + space + "y" for space in SPACES[:40]]
    for _ in range(60):  # pieces of sentences, joined by random characters
        parts = []
        for _ in range(chance.randint(2, 6)):
            sentence = chance.choice(SENTENCES)
            start = chance.randrange(len(sentence))
            parts.append(sentence[start : start + chance.randint(1, 30)])
            parts.append(chance.choice(("", " ", "  ", "\n", "\n\n", "\t", *SPACES)))
        made.append("".join(parts))
    for _ in range(40):  # random characters
        made.append("".join(chr(_scalar(chance)) for _ in range(chance.randint(1, 24))))
    return made


def _scalar(chance: random.Random) -> int:
    while True:
        top = chance.choice((0x80, 0x250, 0x3000, 0xFFFF, 0x1FFFF, 0x10FFFF))
        code = chance.randrange(top)
        if not 0xD800 <= code <= 0xDFFF:
            return code
