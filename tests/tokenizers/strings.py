"""Strings to hold a tokenizer against another one: many scripts, and all that breaks text code.

Everything is drawn from a seed and is the same on every machine: no hypothesis, no data files.
No string holds a lone surrogate, which no UTF-8 can carry; characters whose *bytes* look like
surrogates are there (`BYTES`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

#: One sentence ("All human beings are born free …", or the like) in each script.
SCRIPTS = {
    "Latin": "All human beings are born free and equal in dignity and rights.",
    "Latin with marks": "Đặc biệt là ở Łódź: naïve façade, smörgåsbord, İstanbul, ŉ, ǅ, Žižek, Ÿ!",
    "Cyrillic": "Все люди рождаются свободными и равными; Йод, ёлка, їжак, Љубав.",
    "Greek": "Ὅλοι οἱ ἄνθρωποι γεννιοῦνται ἐλεύθεροι· ΣΊΣΥΦΟΣ και Οδυσσέας.",
    "Armenian": "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։ և",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი, Ⴀ და Ა.",
    "Hebrew": "כָּל בְּנֵי הָאָדָם נוֹלְדוּ בְּנֵי חוֹרִין, וְשָׁוִים.",
    "Arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، ٣٤٥ ـــ ﷺ.",
    "Syriac": "ܟܠ ܒܪܢܫܐ ܒܪܝܠܗ ܚܐܪܐ ܘܒܪܒܪܐ܂",
    "Thaana": "ހުރިހާ އިންސާނުން ވެސް އުފަންވަނީ ދަރަޖަ",
    "Devanagari": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता है।",
    "Bengali": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "Gurmukhi": "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ ਨਾਲ ਪੈਦਾ ਹੋਇਆ ਹੈ।",
    "Gujarati": "પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો જન્મથી સ્વતંત્ર છે.",
    "Oriya": "ସମସ୍ତ ମନୁଷ୍ୟ ଜନ୍ମକାଳରୁ ସ୍ୱାଧୀନ।",
    "Tamil": "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "Telugu": "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులు.",
    "Kannada": "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ.",
    "Malayalam": "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും സ്വാതന്ത്ര്യത്തോടും ജനിച്ചവരാണ്.",
    "Sinhala": "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත.",
    "Thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๑๒๓",
    "Lao": "ມະນຸດເກີດມາມີສິດເສລີພາບ ແລະສະເໝີໜ້າກັນ",
    "Tibetan": "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས།",
    "Burmese": "လူတိုင်းသည် တူညီလွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများဖြစ်သည်။",
    "Khmer": "មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាព។",
    "Mongolian": "ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ᠃",
    "Ethiopic": "የሰው፡ልጅ፡ሁሉ፡ሲወለድ፡ነጻና፡በክብርና፡በመብትም፡እኩልነት፡ያለው፡ነው።",
    "Cherokee": "ᏂᎦᏓ ᎠᏂᏴᏫ ᎨᎵᏗ ᎢᎬᏩᏅᏔ ꭰꭱ",
    "Canadian syllabics": "ᐃᓅᔪᓕᒫᑦ ᐊᓂᖅᑎᕆᔪᓪᓗᑎᒃ ᐃᓅᓯᓕᒫᒥᓂᒃ.",
    "Chinese": "人人生而自由,在尊严和权利上一律平等。他们赋有理性;㐀䶵𠀀。",
    "Japanese": "すべての人間は、生まれながらにして自由であり、カタカナとﾊﾝｶｸも。",
    "Korean": "모든 인간은 태어날 때부터 자유로우며 한글",
    "Bopomofo": "ㄖㄣˊㄖㄣˊㄕㄥㄦˊㄗˋㄧㄡˊ",
    "Yi": "ꊿꂷꃅꄿꐨꐥ,ꌅꅍꀂꏽꐯꒈꃅꐥꌐ。",
    "Gothic": "𐌰𐌻𐌻𐌰𐌹 𐌼𐌰𐌽𐌽𐌰 𐍆𐍂𐌴𐌹𐌾𐌰𐌹",
    "Deseret": "𐐎𐐲𐑌 𐐼𐐩 𐐃𐑌 𐐢𐐨𐐽",
    "Cuneiform": "𒀀𒁀𒂀 𒈗𒃲 𒆜",
    "Mathematical letters": "𝐀𝑏𝒞𝔡𝔼 ∑ᵢ xᵢ² ≠ √2·10⁻³ ½ Ⅷ ℵ₀ ﬁ",
}

_WORDS = (
    "the of and to in is that for it was on are as with they be at one have this from by hot "
    "word but what some transformers tokenisation unbelievable antidisestablishmentarianism "
    "Python def return self None lambda GPT-2 BERT iPhone McDonald NASA HTTP html utf8 café Zürich "
    "naïve résumé hug pug pun bun hugs bugs"
)
WORDS = _WORDS.split()
_CONTRACTIONS = "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'VE 'M 'LL 'D ’s ’t ’re ''s 's' s' 'ſ"
CONTRACTIONS = _CONTRACTIONS.split()
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\r", "\v", "\f", "\x85", "\xa0", "\u1680"]
SPACES += ["\u2003", "\u2009", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e"]
INVISIBLE = ["\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202e", "\u2060", "\ufeff", "\xad"]
INVISIBLE += ["\ufe0f", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000e0001"]
CONTROLS = [chr(c) for c in (*range(0x20), *range(0x7F, 0xA0))]
MARKS = [chr(c) for c in (*range(0x300, 0x310), 0x323, 0x327, 0x338, 0x345, 0x361, 0x20DD, 0x3099)]
EMOJI = [
    "😀",
    "👍",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪",
    "🇺🇦🇯🇵",
    "❤️",
    "☕",
    "1️⃣",
    "🧑🏿‍🚀",
    "👁️‍🗨️",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "‍",
    "🏽",
]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»„“”‘’…—–·¿¡§¶†‡•′″※、。「」『』【】،؟।॥፡")
SYMBOLS = list("©®™°±×÷€£¥₽₿←→↔∀∃∈∞≈■▲○★♠♫✓¬¦¯´¨¸")
NUMBERS = [
    "0",
    "7",
    "42",
    "1984",
    "3.14159",
    "1,000,000",
    "1e-9",
    "0x7fff",
    "٣٤٥",
    "१२३",
    "²³",
    "Ⅷ",
]
SPECIALS = ["<|endoftext|>", "<|endoftext", "|>", "[CLS]", "[SEP]", "[UNK]", "##ing", "[MASK]", "Ġ"]
CODE = [
    "def f(x):\n    return x ** 2\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "if x:\n        y = {'a': [1, 2, 3]}  # comment\n\n\n",
    '<p class="a">&nbsp;</p>\r\n',
    "SELECT * FROM t WHERE id='7';--",
    r"\frac{\partial L}{\partial w} = 0 \\",
    "https://example.org/a?b=c&d=%20e#f",
]

#: Bytes that aren't UTF-8, or not quite: halves of surrogates, overlong forms, cut sequences.
BYTES = [
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"\xe2\x82",
    b"\x80\x81\xfe\xff",
    b"\xff\xfe\x00a",
]


def _scripts(rng: random.Random) -> str:
    sentence = rng.choice(list(SCRIPTS.values()))
    start = rng.randrange(len(sentence))
    return sentence[start : start + rng.randint(1, 40)]


def _cased_scripts(rng: random.Random) -> str:
    return rng.choice([str.upper, str.title, str.swapcase])(_scripts(rng))


def _mixed_scripts(rng: random.Random) -> str:
    return rng.choice(["", " "]).join(_scripts(rng)[: rng.randint(1, 8)] for _ in range(4))


def _words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9))) + rng.choice(["", ".", "!", " ", "\n"])


def _joined_words(rng: random.Random) -> str:
    parts = rng.choices(WORDS, k=rng.randint(1, 5))
    return "".join(w + rng.choice(["", "-", "_", ".", "/", "'", "’"]) for w in parts)


def _contractions(rng: random.Random) -> str:
    return "".join(
        rng.choice(["", " "]) + rng.choice([*WORDS, "", "I", "we", "7", "Он"])
        + rng.choice(CONTRACTIONS)
        for _ in range(rng.randint(1, 5))
    )  # fmt: skip


def _spaces(rng: random.Random) -> str:
    pieces = [rng.choice(SPACES) * rng.choice([1, 1, 2, 5]) for _ in range(rng.randint(1, 5))]
    return "".join(piece + rng.choice([*WORDS, "", "", "7", "!"]) for piece in pieces)


def _indentation(rng: random.Random) -> str:
    return "".join(
        rng.choice(["    ", "\t", "  "]) * rng.randint(0, 6) + rng.choice([*WORDS, "}", ""]) + "\n"
        for _ in range(rng.randint(1, 5))
    )


def _controls(rng: random.Random) -> str:
    return "".join(
        rng.choice([*CONTROLS, *INVISIBLE, *WORDS, " "]) for _ in range(rng.randint(1, 9))
    )


def _marks(rng: random.Random) -> str:
    return "".join(
        rng.choice("aeiouAEIOUncszyåΩαиकむ ") + "".join(rng.choices(MARKS, k=rng.randint(0, 3)))
        for _ in range(rng.randint(1, 9))
    )


def _emoji(rng: random.Random) -> str:
    return "".join(
        rng.choice([*EMOJI, " ", "a", "\u200d", "\ufe0f"]) for _ in range(rng.randint(1, 9))
    )


def _punctuation(rng: random.Random) -> str:
    return "".join(
        rng.choice([*PUNCTUATION, *SYMBOLS, " ", "a", "1"]) * rng.choice([1, 1, 1, 3])
        for _ in range(rng.randint(1, 12))
    )


def _numbers(rng: random.Random) -> str:
    digits = "".join(rng.choices("0123456789", k=rng.choice([1, 3, 4, 9, 40, 200])))
    return (
        rng.choice(["", " ", "-", "a", "$"])
        + rng.choice([digits, *NUMBERS])
        + rng.choice(["", "%", "th"])
    )


def _specials(rng: random.Random) -> str:
    return "".join(rng.choice([*SPECIALS, *WORDS, " ", ""]) for _ in range(rng.randint(1, 6)))


def _code(rng: random.Random) -> str:
    return "".join(rng.choices(CODE, k=rng.randint(1, 3)))[rng.randrange(6) :]


def _bytes(rng: random.Random) -> str:
    junk = b"".join(rng.choice([*BYTES, b"a", b" ", bytes([rng.randrange(256)])]) for _ in range(6))
    return junk.decode(rng.choice(["utf-8", "latin-1"]), errors="replace")


def _any_characters(rng: random.Random) -> str:
    top = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
    codes = (rng.randrange(top) for _ in range(rng.randint(1, 12)))
    return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)


def _long(rng: random.Random) -> str:
    return rng.choice(["a", "hug", "é", "ÿ", "가", "=", " ", "\n", "人", "9"]) * rng.randint(1, 250)


#: What kinds of string there are, each with its maker.
KINDS: dict[str, Callable[[random.Random], str]] = {
    "scripts": _scripts,
    "cased scripts": _cased_scripts,
    "mixed scripts": _mixed_scripts,
    "words": _words,
    "joined words": _joined_words,
    "contractions": _contractions,
    "spaces": _spaces,
    "indentation": _indentation,
    "controls": _controls,
    "marks": _marks,
    "emoji": _emoji,
    "punctuation": _punctuation,
    "numbers": _numbers,
    "special tokens": _specials,
    "code": _code,
    "bytes": _bytes,
    "any characters": _any_characters,
    "long": _long,
}


def _all_of_it() -> list[str]:
    """Return the strings that must not depend on luck, each material once and the empty string."""
    materials = (WORDS, CONTRACTIONS, SPACES, INVISIBLE, CONTROLS, MARKS, EMOJI, PUNCTUATION)
    alone = [s for material in (*materials, SYMBOLS, NUMBERS, SPECIALS, CODE) for s in material]
    broken = [b.decode(codec, "replace") for b in BYTES for codec in ("utf-8", "latin-1")]
    return ["", *SCRIPTS.values(), *alone, *(f"a{s}b {s} {s}" for s in alone), *broken]


@cache
def strings(n: int = 12_000, seed: int = 0) -> tuple[str, ...]:
    """Return `n` distinct strings of all `KINDS`, the same for the same arguments."""
    found = dict.fromkeys(_all_of_it())
    rng = random.Random(seed)
    makers = list(KINDS.values())
    while len(found) < n:
        for make in makers:
            found.setdefault(make(rng))
    return tuple(found)[:n]
