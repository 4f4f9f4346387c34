"""The generated parts of the pages, as Markdown, made from the documents under benchmarks/results."""

from benchmarks import machine, report
from benchmarks.gpu.targets import CARD, targets
from benchmarks.harness import PEER
from benchmarks.measured import COMMANDS, shown
from benchmarks.products import step_flop
from npformer.backend.backend import PRECISIONS
from npformer.cli.train import TAKES
from npformer.io.percent import percent
from npformer.models.presets import PRESETS
from npformer.run.options import option_rows

SIZES = ("tiny", "small", "mid", "base")
OF_BOUND = "of the bound by matrix products"
TOO_BUSY = 0.1  # share of the cores that others use
KERNELS = {"npformer-numba": "compiled", "npformer-numpy": "NumPy alone", "npformer-plain": "plain"}


def of(documents, benchmark):
    """The documents of one benchmark."""
    return [document for document in documents if document["benchmark"] == benchmark]


def flat(document):
    """(result, row of a contender) of one document."""
    return [(result, row) for result in document["results"] for row in result["contenders"]]


def table(head, rows):
    """A Markdown table; a bar within a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def not_measured(command):
    """The text in place of a table without a document."""
    return f"No result is committed yet. This command makes one: `{command}`.\n"


def origin(document):
    """Where, when and how a document was made, as a list item."""
    about = document["machine"]
    facts = [about["GPU"].split(",")[0]] if "GPU" in about else []
    facts += [about["processor"].removesuffix(" for this process"), about["date"]]
    facts += [f"commit {about['commit']}"] if "commit" in about else []
    command = f"`{about['command']}`; " if "command" in about else ""
    return f"- [`{document['file']}`](../benchmarks/results/{document['file']}): {command}{'; '.join(facts)}\n"


def origins(documents):
    """The same for several documents."""
    return "\n" + "".join(map(origin, documents))


def measured(sources, head, rows, command, *, with_origin=True):
    """A table of these documents and where they come from; without rows, the command that makes them."""
    told = origins(sources) if with_origin else ""
    return table(head, rows) + told if rows else not_measured(f"python -m benchmarks.{command}")


def part(benchmark, head, command, *, with_origin=True):
    """A part of a page, from a function that makes the rows of one document of a benchmark."""

    def of_rows(rows):
        def made(documents):
            sources = of(documents, benchmark)
            every = [row for document in sources for row in rows(document)]
            command_line = f"{command} --save benchmarks/results/{benchmark}.json"
            return measured(sources, head.split(" | "), every, command_line, with_origin=with_origin)

        return made

    return of_rows


def reverse(documents):
    """The end of what the README's first command prints."""
    for document in of(documents, "command"):
        if document["name"] == "reverse":
            lines = document["output"]
            start = next(i for i, line in enumerate(lines) if line.startswith("held-out examples"))
            return f"After {TAKES} on two cores it ends like this:\n\n```text\n" + "\n".join(lines[start:]) + "\n```\n"
    return not_measured("python -m benchmarks.measured reverse")


def training(documents):
    """A table for each processor: kernels and dropout down, sizes across; the newest counts."""
    texts, by_processor = [], steps(documents)
    for processor, known in by_processor.items():
        sizes, rows = [size for size in SIZES if any(key[2] == size for key in known)], []
        for name, kernels in KERNELS.items():
            for rate in sorted({key[1] for key in known if key[0] == name}, reverse=True):
                row = [known.get((name, rate, size)) for size in sizes]
                rows.append([f"**{kernels}, dropout {rate:g}**", *[""] * len(sizes)])
                rows += [[what, *(cell(x) if x else "–" for x in row)] for what, cell in STEP_ROWS.items()]
        results = [x for x in of(documents, "train_step") if x["machine"]["processor"] == processor]
        texts.append(f"**{processor}**\n\n{table(('', *sizes), rows)}{origins(results)}")
    return "\n".join(texts) or not_measured("python -m benchmarks.train_step --save benchmarks/results/train_step.json")


def steps(documents):
    """Training on a CPU: processor -> (kernels, dropout, size) -> the latest measurement."""
    found = {}
    for document in of(documents, "train_step"):
        for result, row in flat(document) if document["settings"]["device"] == "numpy" else ():
            peer = next((x for x in result["contenders"] if x["name"] == result["times_as_fast_as"]), None)
            here = found.setdefault(document["machine"]["processor"], {})
            here[row["name"], result["dropout"], result["size"]] = row | {"peer": peer}
    return found


def busy(share):
    """The share of the cores that other processes used, emphasised where it distorts the figures."""
    if share is None:
        return "–"
    text = percent(max(share, 0), 0)
    return f"**{text}**" if share >= TOO_BUSY else text


STEP_ROWS = {
    "times as fast as PyTorch": lambda row: report.ratio(row["times_as_fast"]),
    "one step, ms": lambda row: report.milliseconds(row["median"]),
    OF_BOUND: lambda row: report.share(row["of_bound"]),
    "most memory, MB": lambda row: report.megabytes(row["peak_bytes"]),
    "most memory of PyTorch, MB": lambda row: report.megabytes(row["peer"]["peak_bytes"]) if row["peer"] else "–",
    "cores that others used": lambda row: busy(row["others_share"]),
}


@part(
    "decode",
    "size | sentences | kernels | tokens a second | times as fast as PyTorch | others",
    "decode --size tiny,small,mid",
)
def decoding(document):
    """A row for each size and number of sentences."""
    for result, row in flat(document):
        if row["name"] in KERNELS:
            yield [
                result["size"], str(result["batch"]), KERNELS[row["name"]], f"{row['tokens_per_second']:,.0f}",
                report.ratio(row["times_as_fast"]), busy(row["others_share"]),
            ]  # fmt: skip


@part(
    "processes",
    "size | of one thread each | one step, ms | times as fast as PyTorch | exchange, ms | kB sent by each | "
    "messages of each | cores that others used",
    "processes",
)
def processes(document):
    """A row for each contender of each size; PyTorch's all have several processes."""
    for result, row in flat(document):
        (first, *_) = row.get("exchanges", [{}])
        exchanged = ["–"] * 3
        if first.get("messages"):
            seconds = report.milliseconds(first["exchange_seconds"])
            exchanged = [seconds, f"{first['bytes'] / 1e3:,.0f}", f"{first['messages']:g}"]
        yield [
            result["size"], row["name"] + ", 2 processes" * row["name"].startswith(PEER),
            report.milliseconds(row["median"]), report.ratio(row["times_as_fast"]), *exchanged,
            busy(row["others_share"]),
        ]  # fmt: skip


@part(
    "same_bits",
    "task | kernels | steps | processes | runs | lines and arrays compared | runs that differ",
    "same_bits",
)
def same_bits(document):
    """A row for each task and table of kernels: how much of which runs was compared, and what differs."""
    groups = {}
    for row in document["results"]:
        groups.setdefault((row["task"], row["kernels"], str(row["steps"])), []).append(row)
    for group, some in groups.items():
        numbers, differ = sum(row["compared"] for row in some), sum(bool(row["differs"]) for row in some)
        names = "; ".join(dict.fromkeys(row["processes"] for row in some))
        yield [*group, names, str(len(some)), f"{numbers:,}", str(differ)]


@part(
    "beam",
    "run | hypotheses | texts at once | greedy, ms | beam search, ms | times as long",
    "beam runs/numbers-001",
)
def beam(document):
    """A row for each number of texts."""
    for row in document["results"]:
        times = (report.milliseconds(row[way]) for way in ("greedy", "beam"))
        yield [document["run"], str(document["beam"]), str(row["batch"]), *times, report.ratio(row["ratio"])]


@part("gradcheck_time", "case | of | middle, s | fastest, s | limit, s", "gradcheck_time")
def checks(document):
    """How long a gradient check of user code takes."""
    for row in document["results"]:
        yield [row["case"], row["target"], f"{row['middle_s']:.2f}", f"{row['fastest_s']:.2f}", f"{row['limit_s']:g}"]


def commands(documents):
    """A row for each command whose result is a line or two; it leads to the file."""
    by_name, lacking = named(documents, in_a_table=True)
    rows = []
    for name, one in by_name.items():
        lines = "; ".join(f"`{line}`" for line in shown(one))
        what = f"[{COMMANDS[name].what}](../benchmarks/results/{one['file']})"
        rows.append([what, f"`{COMMANDS[name].words}`", lines, took(one["seconds"]), busy(one["others_share"])])
    head = ("what", "command", "came out", "took", "others")
    return (table(head, rows) if rows else "") + lacking


def scale(documents):
    """What queries learn without the division by √d_k and with it."""
    name = "experiment-gradient-sizes"
    found = [one for one in of(documents, "command") if one["name"] == name]
    lines = [line for one in found for line in one["output"][:12] if set(line) - {"-", " "}]
    text = "```text\n" + "\n".join(lines) + "\n```\n" + origins(found)
    return text if found else not_measured(f"python -m benchmarks.measured {name}")


def outputs(documents):
    """The output of commands that print a table; experiments have pages of their own, on the site."""
    by_name, lacking = named(documents, in_a_table=False)
    texts = [
        f"### {COMMANDS[name].what}\n\n```text\n" + "\n".join(one["output"]) + "\n```\n"
        f"Took {took(one['seconds'])}; others used {busy(one['others_share'])} of the cores.\n{origins([one])}"
        for name, one in by_name.items()
        if not name.startswith("experiment-")
    ]
    return "\n".join(texts) + lacking


def named(documents, *, in_a_table):
    """(name -> the document of a command, what to run for those without one)."""
    known = {document["name"]: document for document in of(documents, "command")}
    names = [name for name, command in COMMANDS.items() if bool(command.shows) == in_a_table]
    lacking = " ".join(name for name in names if name not in known)
    made = "\n" + not_measured(f"python -m benchmarks.measured {lacking}") if lacking else ""
    return {name: known[name] for name in names if name in known}, made


def options(documents):
    """A table of all options for each section of a run; no measurement."""
    head, texts = ("option", "type", "default", "meaning"), []
    rows = option_rows()
    for section in dict.fromkeys(row.section for row in rows):
        cells = [(f"`{row.name}`", row.kind, row.default, row.meaning) for row in rows if row.section == section]
        texts.append(f"## [{section}]\n\n{table(head, cells)}")
    return "\n".join(texts)


def took(seconds):
    """Seconds in words: 12.3 s, 4 min 5 s."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def gpu(documents):
    """Targets of one card that it has measured; then the newest row of each kind, and whether its kernels are there.

    A precision, or a way to launch, that npformer has no more has no row.
    """
    runs, of_card = of(documents, "gpu"), {}
    decoded, steps = [], []
    for document in runs:
        of_card |= document["results"] if CARD in document["machine"]["GPU"] else {}
        for part, result in document["results"].items():
            if part == "decode":
                decoded += [
                    [f"{each['size']}, {each['precision']}", str(each["batch"]), row["name"],
                     f"{row['tokens_per_second']:,.0f}", report.ratio(row["times_as_fast"]),
                     report.digits(row.get("launches")), *made_by(document, row)]
                    for each in result for row in each["contenders"]
                ]  # fmt: skip
            elif part.startswith(("train ", "against ")) and result["precision"] in PRECISIONS:
                steps += [
                    [f"{result['size']}, {result['precision']}", row["name"], report.milliseconds(row["median"]),
                     report.ratio(row["times_as_fast"]), share_of_products(document, result, row),
                     report.digits(row["kernels"]), *made_by(document, row)]
                    for row in result["contenders"] if not row["name"].endswith("-many")
                ]  # fmt: skip
    every = targets(of_card)
    aimed = [[each.what, each.wanted, each.found, HOLDS[each.holds]] for each in every if each.found]
    text = table((f"target on an {CARD}", "wanted", "found", "holds"), aimed) if runs else ""
    text += f"\n{len(every) - len(aimed)} of {len(every)} targets are not measured.\n\n" * bool(runs)
    by = ("card, commit", "kernels")
    if decoded:
        head = ("size, precision", "sentences", "", "tokens a second", "times as fast as PyTorch", "launches a token")
        text += table((*head, *by), decoded) + "\n"
    head = (
        "size, precision",
        "",
        "ms a step",
        "times as fast as the best of PyTorch",
        "of the bound by matrix products",
        "launches",
    )
    newest = {(size, name): [size, name, *row] for size, name, *row in steps}
    return text + measured(runs, (*head, *by), [*newest.values()], "gpu")


def share_of_products(document, result, row):
    """The time of a step's products, at the rate that the same run measured, of that of the step."""
    limits = document["results"].get("ceilings")
    rate = limits and limits["products"].get(result["precision"])
    return report.share(rate and step_flop(PRESETS[result["size"]]) / rate / row["median"])


HOLDS = {True: "yes", False: "no", None: "–"}


def made_by(document, row):
    """The card and the commit of a GPU's row, and whether npformer's kernels are the same now."""
    about, kernels = document["machine"], "–"
    if row["name"].startswith("npformer"):
        kernels = "as now" if about["kernels"] == machine.kernels() else "changed since"
    return f"{about['GPU'].split()[1].rstrip(',')}, {about['commit']}", kernels
