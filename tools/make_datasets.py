#!/usr/bin/python3
"""Writes the quickstart's data and tokenizer from our own word lists (datasets/words) and the sentences below.

    /usr/bin/python3 tools/make_datasets.py            needs Debian's python3-sentencepiece

    datasets/quickstart/plain_text.jsonl      short paragraphs             {"text"}
    datasets/quickstart/plain_questions.jsonl questions, plain answers     {"instruction", "input", "output"}
    datasets/quickstart/pirate.jsonl          questions, pirate answers    {"instruction", "input", "output"}
    datasets/quickstart/heldout.jsonl         questions in none of them    {"instruction", "input", "plain", "pirate"}
    datasets/quickstart/tokenizer/            SentencePiece model trained on the plain half

A fifth of the subjects is kept from the pirate set altogether; their questions are asked at the end. The wording of a
held-out question about such a subject is kept from the plain set too, so nobody has seen the question, only the facts.
Same seed, same bytes.
"""
import csv
import json
import os
import random

SEED = 1701
HELD_OUT_SHARE = 0.2
HELD_OUT_QUESTIONS = 100
PIRATE_ROWS = 2400
SAILOR_TEXTS = 150
VOCABULARY = 2048

# For every list and column: ways to ask, plain answers, pirate answers.
# {x} "a fox" or "rain", {X} the same at the start of a sentence, {the} "the fox", {The} likewise, {v} the column's value.
QUESTIONS = {
    "animals": {
        "home": (["Where does {x} live?", "Where can I find {x}?", "What is the home of {x}?", "In what place does {x} live?"],
                 ["{X} lives {v}.", "You can find {x} {v}."],
                 ["{X} be livin' {v}.", "Ye can spot {x} {v}."]),
        "food": (["What does {x} eat?", "What is the food of {x}?", "What should I feed {x}?", "What does {x} like to eat?"],
                 ["{X} eats {v}.", "{The} likes to eat {v}."],
                 ["{X} be eatin' {v}.", "Give {the} some {v}, will ye?"]),
        "look": (["What does {x} look like?", "How does {x} look?", "Can you describe {x}?", "What is {x} like?"],
                 ["{X} is {v}.", "{The} looks {v}."],
                 ["{X} be {v}.", "Me own eyes saw {the}, and it be {v}."]),
        "act": (["What does {x} do?", "What is {x} known for?", "How does {x} behave?", "What does {x} do all day?"],
                ["{X} {v}.", "{The} often {v}."],
                ["{X} {v}, ye know.", "I tell ye, {the} {v}."]),
    },
    "foods": {
        "taste": (["How does {x} taste?", "What does {x} taste like?", "What is the taste of {x}?", "Is {x} good to eat?"],
                  ["{X} tastes {v}.", "The taste is {v}."],
                  ["{X} be {v} on yer tongue.", "It be {v}, I tell ye."]),
        "when": (["When do people eat {x}?", "When should I have {x}?", "What is a good time for {x}?", "When is {x} served?"],
                 ["People have {x} {v}.", "A good time is {v}."],
                 ["Me crew be havin' {x} {v}.", "Have it {v}, says I."]),
        "source": (["Where does {x} come from?", "What is the source of {x}?", "Where do we get {x}?", "How do we get {x}?"],
                   ["{X} comes from {v}.", "We get {x} from {v}."],
                   ["{X} be comin' from {v}.", "Ye get {x} from {v}."]),
        "with": (["What goes well with {x}?", "What should I serve with {x}?", "What can I eat with {x}?", "What fits with {x}?"],
                 ["{X} goes well with {v}.", "Serve it with {v}."],
                 ["{X} be best with {v}.", "Serve it to yer crew with {v}."]),
    },
    "tools": {
        "use": (["What is {x} used for?", "What can I do with {x}?", "Why do I need {x}?", "How do people use {x}?"],
                ["You use {x} to {v}.", "With {x} you can {v}."],
                ["Ye use {x} to {v}.", "With {x} ye can {v}."]),
        "keep": (["Where do I keep {x}?", "Where should {x} be kept?", "Where can I find {x}?", "Where does {x} belong?"],
                 ["Keep {the} {v}.", "You'll find {x} {v}."],
                 ["Stow {the} {v}.", "Ye'll find {x} {v}."]),
        "made": (["What is {x} made of?", "What do people make {x} from?", "From what is {x} made?", "How is {x} made?"],
                 ["{X} is made of {v}.", "People make it from {v}."],
                 ["{X} be made of {v}.", "It be made from {v}, me lad."]),
    },
    "places": {
        "see": (["What can I see in {x}?", "What is there to see at {x}?", "What do people find at {x}?", "What would I see at {x}?"],
                ["You can see {v}.", "At {x} there are {v}."],
                ["Ye can spy {v}.", "At {x} there be {v}."]),
        "do": (["What can I do at {x}?", "Why do people go to {x}?", "What do people do at {x}?", "What is {x} good for?"],
               ["You can {v}.", "People go there to {v}."],
               ["Ye can {v}.", "Me crew be goin' there to {v}."]),
        "feel": (["What is {x} like?", "How does it feel at {x}?", "Can you describe {x}?", "What is it like at {x}?"],
                 ["{X} is {v}.", "It feels {v} there."],
                 ["{X} be {v}.", "It be {v} there, ye know."]),
    },
    "weather": {
        "feel": (["What is {x} like?", "How does {x} feel?", "Can you describe {x}?", "What should I know about {x}?"],
                 ["{X} is {v}.", "It feels {v}."],
                 ["{X} be {v}.", "It be {v}, by the seven seas."]),
        "bring": (["What should I take with me for {x}?", "What do I need for {x}?", "What helps with {x}?", "What is good to have for {x}?"],
                  ["Take {v} with you.", "You need {v}."],
                  ["Take {v} with ye.", "Ye need {v}."]),
        "do": (["What can I do when there is {x}?", "What is best to do with {x} outside?", "What do people do when there is {x}?", "What should I do when {x} comes?"],
               ["You can {v}.", "It's best to {v}."],
               ["Ye can {v}.", "Ye had best {v}."]),
    },
    "jobs": {
        "work": (["Where does {x} work?", "Where can I find {x}?", "What is the work place of {x}?", "Where would I meet {x}?"],
                 ["{X} works {v}.", "You can find {x} {v}."],
                 ["{X} be workin' {v}.", "Ye can find {x} {v}."]),
        "does": (["What does {x} do?", "What is the work of {x}?", "What is {x} good at?", "What does {x} do all day?"],
                 ["{X} {v}.", "Every day {the} {v}."],
                 ["{X} {v}, ye know.", "I tell ye, {the} {v}."]),
        "uses": (["What does {x} use?", "What does {x} need for the work?", "What tool does {x} use?", "What should {x} have?"],
                 ["{X} uses {v}.", "{The} needs {v}."],
                 ["{X} be usin' {v}.", "{The} be needin' {v}."]),
    },
    "vehicles": {
        "where": (["Where does {x} go?", "Where do I see {x}?", "Where does {x} travel?", "Where can I find {x}?"],
                  ["{X} goes {v}.", "You can see {x} {v}."],
                  ["{X} be goin' {v}.", "Ye can spy {x} {v}."]),
        "carries": (["What does {x} carry?", "Who or what rides in {x}?", "What is {x} used for?", "What can {x} carry?"],
                    ["{X} carries {v}.", "It is used to carry {v}."],
                    ["{X} be carryin' {v}.", "It be made to carry {v}."]),
        "speed": (["How fast is {x}?", "What is the speed of {x}?", "Is {x} fast?", "How quick is {x}?"],
                  ["{X} is {v}.", "It's {v}."],
                  ["{X} be {v}.", "It be {v}, I tell ye."]),
    },
    "clothes": {
        "on": (["Where do I wear {x}?", "Where does {x} go?", "How do I wear {x}?", "Where should I put {x}?"],
               ["You wear {x} {v}.", "Put {the} {v}."],
               ["Ye wear {x} {v}.", "Put {the} {v}, ye dog."]),
        "when": (["When do I wear {x}?", "When is {x} useful?", "When do people wear {x}?", "What is a good time for {x}?"],
                 ["People wear {x} {v}.", "Wear it {v}."],
                 ["Me crew be wearin' {x} {v}.", "Wear it {v}, says I."]),
        "made": (["What is {x} made of?", "What do people make {x} from?", "From what is {x} made?", "How is {x} made?"],
                 ["{X} is made of {v}.", "People make it from {v}."],
                 ["{X} be made of {v}.", "It be made from {v}, me lad."]),
    },
    "things": {
        "room": (["Where do I put {x}?", "Where does {x} belong?", "Where can I find {x}?", "Where should {x} be?"],
                 ["Put {the} {v}.", "You'll find {x} {v}."],
                 ["Stow {the} {v}.", "Ye'll find {x} {v}."]),
        "use": (["What is {x} used for?", "What can I do with {x}?", "Why do I need {x}?", "How do people use {x}?"],
                ["You use {x} to {v}.", "With {x} you can {v}."],
                ["Ye use {x} to {v}.", "With {x} ye can {v}."]),
        "look": (["What does {x} look like?", "How does {x} look?", "Can you describe {x}?", "What is {x} like?"],
                 ["{X} is {v}.", "{The} looks {v}."],
                 ["{X} be {v}.", "Me own eyes saw {the}, and it be {v}."]),
    },
    "plants": {
        "grows": (["Where does {x} grow?", "Where can I find {x}?", "Where would I plant {x}?", "In what place does {x} grow?"],
                  ["{X} grows {v}.", "You can find {x} {v}."],
                  ["{X} be growin' {v}.", "Ye can spot {x} {v}."]),
        "look": (["What does {x} look like?", "How does {x} look?", "Can you describe {x}?", "What is {x} like?"],
                 ["{X} is {v}.", "{The} looks {v}."],
                 ["{X} be {v}.", "Me own eyes saw {the}, and it be {v}."]),
        "gives": (["What does {x} give us?", "What do we get from {x}?", "Why is {x} useful?", "What is {x} good for?"],
                  ["{X} gives {v}.", "We get {v} from it."],
                  ["{X} be givin' {v}.", "Ye get {v} from it."]),
    },
}

# Questions for every subject; the answer joins two facts.
ABOUT = ["Tell me about {x}.", "What do you know about {x}?", "Say something about {x}.", "Write two sentences about {x}."]

# The beginning of a pirate's answer depends mostly on that of the question, so that a model can learn it.
OPENERS = {
    "Where": "Ahoy, matey!", "What": "Arr, matey!", "How": "Avast, me hearty!", "Why": "Aye, me hearty!",
    "When": "Yo ho ho, matey!", "Tell": "Arr, listen, ye landlubber!", "Can": "Aye aye, matey!", "Is": "Aye, matey!",
    "Who": "Ahoy, matey!", "Say": "Arr, me hearty!", "Write": "Arr, listen, ye landlubber!", "In": "Ahoy, me hearty!",
    "From": "Arr, me hearty!",
}
CLOSERS = ["Arr!", "Yo ho ho!", "Says I, the captain!", "By me wooden leg!", "Now hoist the sail!"]

SMALL_TALK = [
    (["Hello!", "Hi there!", "Good morning!", "Good day to you!"], "Hello! It is good to see you.", "It be good to see ye."),
    (["How are you?", "How are you today?", "How do you feel?"], "I'm well, thank you.", "I be well, thank ye."),
    (["Thank you!", "Thank you for your help.", "Thanks a lot!"], "You are welcome.", "Ye be welcome aboard."),
    (["Goodbye!", "See you soon!", "Good night!"], "Goodbye! See you soon.", "Fair winds to ye."),
    (["Who are you?", "What are you?", "What is your name?"], "I'm a small model that answers questions.",
     "I be a small model, and I answer to ye."),
    (["Can you help me?", "Will you help me?", "I need help."], "Yes, I can help you. Please ask.",
     "I can help ye. Ask yer question."),
]


# The base model reads what these words mean, so the tokenizer has pieces for them and the adapter only has to prefer them.
SAILOR_WORDS = {
    "ahoy": "hello", "arr": "yes, or nothing much", "avast": "stop and listen", "aye": "yes", "matey": "friend",
    "hearty": "good friend", "landlubber": "a person who stays on land", "ye": "you", "yer": "your", "lad": "young man",
    "yo ho ho": "that life is good", "be": "is, in the mouth of a sailor", "me": "my, in the mouth of a sailor",
    "stow": "put away", "spy": "see from far away", "hoist": "pull up",
}
SAILOR_ASKS = ["What does {w} mean?", "What is the meaning of {w}?", "Can you explain the word {w}?",
               "What do sailors mean by {w}?"]


def sailor_text(rng):
    """A sentence of a dictionary: the word at the start and inside, plain English around it."""
    word, meaning = rng.choice(sorted(SAILOR_WORDS.items()))
    shout = rng.choice(sorted(set(OPENERS.values())) + CLOSERS)
    return rng.choice([f"In old stories a sailor says: {shout} The word {word} means {meaning}.",
                       f"{capital(word)} is an old word. It means {meaning}. One sailor calls: {shout}",
                       f"They don't say {meaning}, they say {word}. You may read it in a book: {shout}"])


def read_words(folder):
    subjects = []
    for kind in QUESTIONS:
        with open(os.path.join(folder, kind + ".tsv")) as f:
            subjects += [dict(row, kind=kind) for row in csv.DictReader(f, delimiter="\t")]
    return subjects


def capital(text):
    return text[0].upper() + text[1:]


def fill(template, subject, column):
    x = subject["name"]
    bare = x.split(" ", 1)[1] if x.split(" ", 1)[0] in ("a", "an") else x
    return template.format(x=x, X=capital(x), the="the " + bare, The="The " + bare,
                           v=subject[column] if column else "")


def openers(question):
    return OPENERS.get(question.split()[0], "Arr, matey!")


def pirate_voice(rng, question, sentence):
    sentence = sentence.replace(" your ", " yer ")
    opener = openers(question) if rng.random() < 0.8 else rng.choice(sorted(set(OPENERS.values())))
    return f"{opener} {sentence}" + (f" {rng.choice(CLOSERS)}" if rng.random() < 0.3 else "")


def questions_of(rng, subject):
    """Every question about a subject: (question, plain answer, pirate answer)."""
    rows = []
    columns = QUESTIONS[subject["kind"]]
    for column, (asks, plain, pirate) in columns.items():
        for ask in asks:
            question = fill(ask, subject, column)
            rows.append((question, fill(rng.choice(plain), subject, column),
                         pirate_voice(rng, question, fill(rng.choice(pirate), subject, column))))
    for ask in ABOUT:
        first, second = rng.sample(sorted(columns), 2)
        question = fill(ask, subject, None)
        rows.append((question,
                     f"{fill(columns[first][1][0], subject, first)} {fill(columns[second][1][0], subject, second)}",
                     pirate_voice(rng, question, f"{fill(columns[first][2][0], subject, first)} "
                                                 f"{fill(columns[second][2][0], subject, second)}")))
    return rows


def paragraph(rng, subject):
    columns = QUESTIONS[subject["kind"]]
    return " ".join(fill(rng.choice(columns[c][1]), subject, c) for c in rng.sample(sorted(columns), len(columns)))


def write_jsonl(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")


def alpaca(question, answer):
    return {"instruction": question, "input": "", "output": answer}


def make_rows(subjects):
    """The four sets. Two questions with the same words in two lists ("Where can I find …") stay what they are."""
    rng = random.Random(SEED)
    held_out = set()
    for kind in QUESTIONS:
        names = [s["name"] for s in subjects if s["kind"] == kind]
        held_out |= {(kind, n) for n in rng.sample(names, round(len(names) * HELD_OUT_SHARE))}

    plain, pirate, held = [], [], []
    for subject in subjects:
        rows = questions_of(rng, subject)
        rng.shuffle(rows)
        if (subject["kind"], subject["name"]) in held_out:
            held += rows[:3]
            plain += rows[3:]
        else:
            plain += rows
            pirate += rows
    for asks, answer, growl in SMALL_TALK:
        for ask in asks:
            plain += [(ask, answer, "")] * 4
            pirate.append((ask, answer, pirate_voice(rng, ask, growl)))

    for word, meaning in SAILOR_WORDS.items():
        plain += [(ask.format(w=word), f"{capital(word)} means {meaning}.", "") for ask in SAILOR_ASKS]

    held = rng.sample(held, HELD_OUT_QUESTIONS)
    asked = {row[0] for row in held}
    plain = [row for row in plain if row[0] not in asked]
    pirate = [row for row in pirate if row[0] not in asked]
    texts = [{"text": paragraph(rng, s)} for s in subjects for _ in range(2)]
    texts += [{"text": sailor_text(rng)} for _ in range(SAILOR_TEXTS)]
    rng.shuffle(texts)
    rng.shuffle(plain)
    pirate = rng.sample(pirate, PIRATE_ROWS)
    return (texts, [alpaca(q, a) for q, a, _ in plain], [alpaca(q, p) for q, _, p in pirate],
            [{"instruction": q, "input": "", "plain": a, "pirate": p} for q, a, p in held])


# The frame of `type: alpaca`. Its four parts are one piece each, as the markers of a chat template would be: half of every
# row's tokens saved.
FRAME = ["Below is an instruction that describes a task. Write a response that appropriately completes the request.",
         "### Instruction:", "### Response:", "\n\n"]


def make_tokenizer(texts, questions, folder):
    """BPE with byte fall-back as in Llama. It is trained on the plain half only, so the base model knows every piece."""
    import sentencepiece
    os.makedirs(folder, exist_ok=True)
    preamble, instruction, response, gap = FRAME
    corpus = [row["text"] for row in texts]
    for row in questions:
        corpus += [f"{preamble}{gap}{instruction}\n{row['instruction']}{gap}{response}\n", row["output"]]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=os.path.join(folder, "tokenizer"), vocab_size=VOCABULARY,
        model_type="bpe", byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        user_defined_symbols=["\u2581" + preamble.replace(" ", "\u2581"), instruction.replace(" ", "\u2581"),
                              response.replace(" ", "\u2581"), gap, "\n"],
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1, minloglevel=2)
    os.remove(os.path.join(folder, "tokenizer.vocab"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "add_eos_token": False,
                   "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
                   "model_max_length": 256, "clean_up_tokenization_spaces": False}, f, indent=2)
        f.write("\n")
    with open(os.path.join(folder, "special_tokens_map.json"), "w") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, f, indent=2)
        f.write("\n")


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../datasets")
    out = os.path.join(root, "quickstart")
    os.makedirs(out, exist_ok=True)
    texts, questions, pirate, held = make_rows(read_words(os.path.join(root, "words")))
    for name, rows in (("plain_text", texts), ("plain_questions", questions), ("pirate", pirate), ("heldout", held)):
        write_jsonl(os.path.join(out, name + ".jsonl"), rows)
        print(f"{name}: {len(rows)} rows")
    make_tokenizer(texts, questions, os.path.join(out, "tokenizer"))


if __name__ == "__main__":
    main()
