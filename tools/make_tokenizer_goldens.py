#!/usr/bin/env python3
"""Writes tests/goldens/tokenizer/: small tokenizers and the ids `tokenizers` gives for odd texts.

Usage: tools/make_tokenizer_goldens.py tests/goldens/tokenizer
Needs: pip install tokenizers tiktoken unicodedata2==16.0.0. Where a tiktoken encoding can say the
same thing (no normalizer, no added tokens inside the text), its ids must agree, or this stops.
"""
import json
import random
import sys
from pathlib import Path

try:
    import tiktoken
    import unicodedata2 as ucd
except ImportError:  # compare_tokenizers.py, which borrows from here, can do without
    tiktoken = ucd = None
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        trainers)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
END = "<|endoftext|>"

TRAINING = [
    "The voices of a fugue enter one after the other; in a stretto they overlap. It's what we'll do, "
    "I'd say, and they've done: don't stop, we're not the last.\n\n" * 3,
    "Die Stimmen überlappen sich. Größe, Straße, Maß. Çà et là, l'œuvre déjà naïve coûte cher.\n",
    "Голоса вступают один за другим. Ελληνικά γράμματα. עברית מימין לשמאל. العربية من اليمين.\n",
    "日本語のテキスト。中文文本。한국어 텍스트 입니다. ไทย ภาษา हिन्दी भाषा\n",
    "x = [1, 22, 333, 4444, 55555]; for (int i = 0; i < 100; ++i) { sum += a[i] * b[i]; }\n\t\treturn 0;\n",
    "🙂👍🏽👩‍👩‍👧‍👦🇩🇪 emoji 🙂🙂 ok\r\n\r\n   spaces    here  \n",
]


def cases():
    texts = [
        "", " ", "  ", "\n", " \n ", "a", "Hello world", "Hello  world   again    ",
        "it's IT'S we'LL we'll I'D you've YOU'VE they're THEY'RE don't 'tis 's 'S 'ſ x'ſ 'll'",
        "1 12 123 1234 12345678 ½ ² Ⅷ ٣٤٥ १२३४", "a1b2c3 x86_64 3.14e-10",
        "tab\tnew\nline\r\nmac\rff\fvt\vnel\u0085nbsp\u00a0end", "   leading", "trailing   ",
        "\n\n\nfoo\n\n  bar\n   \n", "foo \n bar\t\n\tbaz\r\n\r\nqux!!!\n\n\nend.\n",
        "!!!???...,,,;;; ---- ==== ((())) {}[]<>", "a\u0301 e\u0308 \u0301alone n\u0303o",
        "\u1100\u1161\u11a8 \uac00\u11a8 각", "\u0344\u212b\u2126\u1e9b\u0323 q\u0307\u0323",
        "שלום עולם مرحبا بالعالم \u202eRTL\u202c mixed",
        "🙂 👍🏽 👩‍👩‍👧‍👦 🇩🇪 1️⃣ ☺️", "\u200b\u200d\ufeff\u2060zero width",
        "\u1680\u2000\u2003\u2009\u202f\u205f\u3000\u180ex", "\u0000\u0001\u001f\u007f\u0080\u009f",
        "x" * 300, "ab" * 400, " " * 50 + "x", "\u3042" * 120, "\U0010ffff\ue000\ufffd\ufffe",
        f"{END}", f"a{END}b {END} {END}{END}", "<|endoftext", "<|endoftext|>|>",
        "a  b   c    d", "     five", "Hello<|pad|>there",
    ]
    by_class = {}
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            by_class.setdefault(ucd.category(chr(code)), []).append(chr(code))
    draw = random.Random(7)
    for kind in sorted(by_class):
        if kind == "Cn":
            continue
        chars = [by_class[kind][0], by_class[kind][-1]] + draw.sample(
            by_class[kind], min(6, len(by_class[kind])))
        for c in chars[:3]:
            texts.append(f"{c} a{c}b 1{c}2 .{c}, {c}{c} '{c}s\n{c}\n")
        texts.append("".join(chars))
    pool = [c for chars in by_class.values() for c in draw.sample(chars, min(20, len(chars)))]
    pool += list(" '\n\r\tabstdmlrveSTDMLRVE0123456789  ''")
    for _ in range(120):
        texts.append("".join(draw.choice(pool) for _ in range(draw.randint(1, 24))))
    return texts


def invalid():
    parts = [b"a\xffb", b"\xff", b"\xc3", b"ok \xe2\x82 ok", b"\xf0\x9f\x99 x", b"\xc0\xafy",
             b"\xed\xa0\x80z", b"\xf4\x90\x80\x80", b"word  \xfe\xff  word", b"\x80\x80\x80 tail",
             "é".encode() + b"\xc3" + "é".encode(), b"it\xff's"]
    return parts


def train(pattern, vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pattern
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TRAINING * 2, trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=2, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def build():
    byte_level = pre_tokenizers.ByteLevel
    gpt2 = train(byte_level(add_prefix_space=False), 560)
    neox = train(byte_level(add_prefix_space=True), 500)
    neox.normalizer = normalizers.NFC()
    neox.add_tokens([AddedToken(" " * n, normalized=True) for n in (4, 3, 2)])
    neox.add_special_tokens(["<|pad|>"])
    llama3 = train(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        byte_level(add_prefix_space=False, use_regex=False)]), 620)
    state = json.loads(llama3.to_str())
    state["model"]["ignore_merges"] = True
    return {"gpt2": gpt2, "neox": neox, "llama3": Tokenizer.from_str(json.dumps(state))}


def spelling():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return table


def ids_of_bytes(tokenizer, data, table):
    """Valid stretches through the tokenizer, each run of invalid bytes as one piece."""
    ids, bad, at = [], b"", 0

    def flush(chunk):
        if chunk:
            ids.extend(t.id for t in tokenizer.model.tokenize("".join(table[b] for b in chunk)))

    valid = b""
    while at < len(data):
        for size in (1, 2, 3, 4):
            try:
                data[at:at + size].decode()
                break
            except UnicodeDecodeError:
                continue
        else:
            size = 0
        if size:
            flush(bad)
            bad = b""
            valid += data[at:at + size]
            at += size
        else:
            ids.extend(tokenizer.encode(valid.decode(), add_special_tokens=False).ids)
            valid = b""
            bad += data[at:at + 1]
            at += 1
    flush(bad)
    return ids + tokenizer.encode(valid.decode(), add_special_tokens=False).ids


def check_tiktoken(tokenizer, pattern, texts, table):
    inverse = {c: b for b, c in table.items()}
    ranks = {bytes(inverse[c] for c in t): i for t, i in tokenizer.get_vocab().items() if t != END}
    other = tiktoken.Encoding("check", pat_str=pattern, mergeable_ranks=ranks,
                              special_tokens={END: tokenizer.token_to_id(END)})
    for text in texts:
        mine = tokenizer.encode(text, add_special_tokens=False).ids
        if mine != other.encode(text, allowed_special="all"):
            raise SystemExit(f"tiktoken disagrees on {text!r}")


def main():
    if tiktoken is None:
        raise SystemExit("needs: pip install tokenizers tiktoken unicodedata2==16.0.0")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    table, texts, tokenizers = spelling(), cases(), build()
    check_tiktoken(tokenizers["gpt2"], GPT2, texts, table)
    check_tiktoken(tokenizers["llama3"], LLAMA3, texts, table)
    for name, tokenizer in tokenizers.items():
        state = json.loads(tokenizer.to_str())
        (folder / f"{name}.json").write_text(json.dumps(state, ensure_ascii=False), "utf-8")
    with open(folder / "cases.jsonl", "w", encoding="utf-8") as out:
        for text in texts:
            row = {"hex": text.encode().hex()}
            for name, tokenizer in tokenizers.items():
                # The normalizer of `tokenizers` does not know the combining classes of marks added
                # to Unicode since about 2018; where it is wrong there is nothing to compare.
                if name == "neox" and normalizers.NFC().normalize_str(text) != ucd.normalize(
                        "NFC", text):
                    continue
                row[name] = tokenizer.encode(text, add_special_tokens=False).ids
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
        for data in invalid():
            row = {"hex": data.hex()}
            for name in ("gpt2", "llama3"):
                row[name] = ids_of_bytes(tokenizers[name], data, table)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    (folder / "training.json").write_text(json.dumps(TRAINING * 2, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
