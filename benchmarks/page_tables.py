"""The generated parts of the pages, as Markdown, made from the documents under benchmarks/results."""

from benchmarks import compare, machine, report
from benchmarks.gpu.targets import CARD, targets
from benchmarks.measured import COMMANDS, shown
from npformer.backend.backend import PRECISIONS
from npformer.cli.train import TAKES
from npformer.io.percent import percent
from npformer.run.option_table import differences, option_rows

SIZES = ("tiny", "small", "mid", "base")
KERNELS = {"npformer-numba": "compiled", "npformer-numpy": "NumPy alone", "npformer-plain": "plain"}


def of(documents, benchmark):
    """The documents of one benchmark."""
    return [document for document in documents if document["benchmark"] == benchmark]


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


def measured(sources, head, rows, command):
    """A table of these documents and where they come from; without rows, the command that makes them."""
    return table(head, rows) + origins(sources) if rows else not_measured(f"python -m benchmarks.{command}")


def reverse(documents):
    """The end of what the README's first command prints."""
    for document in of(documents, "command"):
        if document["name"] == "reverse":
            lines = document["output"]
            start = next(i for i, line in enumerate(lines) if line.startswith("held-out examples"))
            return f"After {TAKES} on two cores it ends like this:\n\n```text\n" + "\n".join(lines[start:]) + "\n```\n"
    return not_measured("python -m benchmarks.measured reverse")


def steps(documents):
    """Training on a CPU: processor -> (kernels, dropout, size) -> the latest measurement."""
    by_processor = {}
    for document in of(documents, "train_step"):
        if document["settings"]["device"] == "numpy":
            here = by_processor.setdefault(document["machine"]["processor"], {})
            for result in document["results"]:
                peer = next((x for x in result["contenders"] if x["name"] == result["times_as_fast_as"]), None)
                for row in result["contenders"]:
                    here[row["name"], result["dropout"], result["size"]] = row | {"peer": peer}
    return by_processor


STEP_ROWS = {
    "times as fast as PyTorch": lambda row: report.ratio(row["times_as_fast"]),
    "one step, ms": lambda row: report.milliseconds(row["median"]),
    "of the bound by matrix products": lambda row: report.share(row["of_bound"]),
    "most memory, MB": lambda row: report.megabytes(row["peak_bytes"]),
    "most memory of PyTorch, MB": lambda row: report.megabytes(row["peer"]["peak_bytes"]) if row["peer"] else "–",
    "cores that others used": lambda row: busy(row["others_share"]),
}


def busy(share):
    """The share of the cores that other processes used, emphasised where it distorts the figures."""
    if share is None:
        return "–"
    text = percent(max(share, 0), 0)
    return f"**{text}**" if share >= compare.TOO_BUSY else text


def training(documents):
    """A table for each processor: kernels and dropout down, sizes across."""
    texts = []
    for processor, by_size in steps(documents).items():
        sizes, rows = [size for size in SIZES if any(key[2] == size for key in by_size)], []
        for name, kernels in KERNELS.items():
            for rate in sorted({key[1] for key in by_size if key[0] == name}, reverse=True):
                row = [by_size.get((name, rate, size)) for size in sizes]
                rows.append([f"**{kernels}, dropout {rate:g}**", *[""] * len(sizes)])
                rows += [[what, *(cell(x) if x else "–" for x in row)] for what, cell in STEP_ROWS.items()]
        results = [x for x in of(documents, "train_step") if x["machine"]["processor"] == processor]
        texts.append(f"**{processor}**\n\n{table(('', *sizes), rows)}{origins(results)}")
    return "\n".join(texts) or not_measured("python -m benchmarks.train_step --save benchmarks/results/train_step.json")


def decoding(documents):
    """A row for each size and number of sentences."""
    rows, decodes = [], of(documents, "decode")
    for document in decodes:
        for result in document["results"]:
            for row in result["contenders"]:
                if row["name"] in KERNELS:
                    rows.append(
                        [result["size"], str(result["batch"]), KERNELS[row["name"]],
                         f"{row['tokens_per_second']:,.0f}", report.ratio(row["times_as_fast"]),
                         busy(row["others_share"]), document["machine"]["processor"]]
                    )  # fmt: skip
    head = ("size", "sentences", "kernels", "tokens a second", "times as fast as PyTorch", "others", "processor")
    return measured(decodes, head, rows, "decode --size tiny,small,mid --save benchmarks/results/decode.json")


def beam(documents):
    """A row for each run and number of texts."""
    beams = of(documents, "beam")
    rows = [
        [document["run"], str(document["beam"]), str(row["batch"]), report.milliseconds(row["greedy"]),
         report.milliseconds(row["beam"]), report.ratio(row["ratio"])]
        for document in beams for row in document["results"]
    ]  # fmt: skip
    head = ("run", "hypotheses", "texts at once", "greedy, ms", "beam search, ms", "times as long")
    return measured(beams, head, rows, "beam runs/numbers-001 --save benchmarks/results/beam-numbers.json")


def checks(documents):
    """How long a gradient check of user code takes."""
    timings = of(documents, "gradcheck_time")
    rows = [
        [row["case"], row["target"], f"{row['middle_s']:.2f}", f"{row['fastest_s']:.2f}", f"{row['limit_s']:g}"]
        for document in timings
        for row in document["results"]
    ]
    head = ("case", "of", "middle, s", "fastest, s", "limit, s")
    return measured(timings, head, rows, "gradcheck_time --save benchmarks/results/gradcheck_time.json")


def derivations(documents):
    """Of the derivations of each list, how many have the marked line named, and how many another one."""
    found, rows = of(documents, "derivations"), []
    for which, counts in (item for document in found for item in document["summary"].items()):
        when, kind = which.split("_")
        words = f"{kind}, written {'before' if when == 'first' else 'after'} the checker"
        named = "–" if kind == "right" else str(counts["as marked"])
        rows.append([words, str(counts["derivations"]), named, str(counts["accused"])])
    head = ("derivations", "number", "the first wrong line named", "another line accused")
    return measured(found, head, rows, "derivations --save benchmarks/results/derivations.json")


def causes(documents):
    """How often a planted cause of a step was named first, and how many sound steps were accused."""
    found, rows = of(documents, "causes"), []
    for document in found:
        summary = document["summary"]
        for name, counts in summary["planted"].items():
            rows.append([f"`{name}`", str(counts["steps"]), str(counts["first"]), str(counts["named"])])
        rows.append(["nothing: sound steps", str(summary["sound"]), "–", f"{summary['accused']} accused"])
    head = ("planted", "steps", "named first", "named")
    return measured(found, head, rows, "causes --save benchmarks/results/causes.json")


def commands(documents):
    """A row for each command whose result is a line or two; commands without a file follow in a list."""
    by_name = {document["name"]: document for document in of(documents, "command")}
    rows, origin_of = [], []
    for name, command in COMMANDS.items():
        if command.shows and name in by_name:
            one = by_name[name]
            lines = "; ".join(f"`{line}`" for line in shown(one))
            rows.append([command.what, f"`{command.words}`", lines, took(one["seconds"]), busy(one["others_share"])])
            origin_of.append(one)
    text = table(("what", "command", "came out", "took", "others"), rows) + origins(origin_of) if rows else ""
    return "\n".join(filter(None, (text, missing(by_name, in_a_table=True))))


def outputs(documents):
    """The output of commands that print a table."""
    by_name = {document["name"]: document for document in of(documents, "command")}
    texts = [
        f"### {command.what}\n\n```text\n" + "\n".join(by_name[name]["output"]) + "\n```\n"
        f"Took {took(by_name[name]['seconds'])}; others used {busy(by_name[name]['others_share'])} of the cores.\n"
        f"{origins([by_name[name]])}"
        for name, command in COMMANDS.items()
        if not command.shows and name in by_name
    ]
    return "\n".join(filter(None, (*texts, missing(by_name, in_a_table=False))))


def options(documents):
    """A table of all options for each section of a run; no measurement."""
    head, texts = ("option", "type", "default", "meaning"), []
    rows = option_rows()
    for section in dict.fromkeys(row.section for row in rows):
        cells = [(f"`{row.name}`", row.kind, row.default, row.meaning) for row in rows if row.section == section]
        texts.append(f"### [{section}]\n\n{table(head, cells)}")
    return "\n".join(texts)


def defaults(documents):
    """A row for tasks with the same defaults: those that are not the same for all tasks; no measurement."""
    tasks = {}
    for task, rows in differences().items():
        told = ", ".join(f"`{row.name}={row.default}`" for row in rows)
        tasks.setdefault(told, []).append(f"`{task}`")
    return table(("task", "its defaults"), [(", ".join(names), told) for told, names in tasks.items()])


def missing(results, *, in_a_table):
    """The commands to run for missing measurements."""
    names = [name for name, command in COMMANDS.items() if bool(command.shows) == in_a_table and name not in results]
    if not names:
        return ""
    rows = [[COMMANDS[name].what, f"`{COMMANDS[name].words}`", f"`{name}`"] for name in names]
    head = "No result is committed yet of these. `python -m benchmarks.measured NAME` makes one:\n\n"
    return head + table(("what", "command", "NAME"), rows)


def took(seconds):
    """Seconds in words: 12.3 s, 4 min 5 s."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def gpu(documents):
    """Targets of one card by what that card did; then all rows of all cards, and whether their kernels are there.

    A precision, or a way to launch, that npformer has no more has no row.
    """
    runs, holds = of(documents, "gpu"), {True: "yes", False: "no", None: "–"}
    of_card = {}
    for document in runs:
        of_card |= document["results"] if CARD in document["machine"]["GPU"] else {}
    aimed = [[each.what, each.wanted, each.found or "not measured", holds[each.holds]] for each in targets(of_card)]
    steps, decoded = [], []
    for document in runs:
        for part, result in document["results"].items():
            if part.startswith(("train ", "against ")) and result["precision"] in PRECISIONS:
                steps += [
                    [f"{result['size']}, {result['precision']}", row["name"], report.milliseconds(row["median"]),
                     report.ratio(row["times_as_fast"]), report.share(row["of_bound"]), report.digits(row["kernels"]),
                     *made_by(document, row)]
                    for row in result["contenders"] if not row["name"].endswith("-many")
                ]  # fmt: skip
            for each in result if part == "decode" else ():
                decoded += [
                    [f"{each['size']}, {each['precision']}", str(each["batch"]), row["name"],
                     f"{row['tokens_per_second']:,.0f}", report.ratio(row["times_as_fast"]),
                     report.digits(row.get("launches")), *made_by(document, row)]
                    for row in each["contenders"]
                ]  # fmt: skip
    text = table((f"target on an {CARD}", "wanted", "found", "holds"), aimed) + "\n" if runs else ""
    by = ("card, commit", "kernels")
    if decoded:
        head = ("size, precision", "sentences", "", "tokens a second", "times as fast as PyTorch", "launches a token")
        text += table((*head, *by), decoded) + "\n"
    head = ("size, precision", "", "ms a step", "times as fast as the best of PyTorch", "of the ceiling", "launches")
    return text + measured(runs, (*head, *by), steps, "gpu")


def made_by(document, row):
    """The card and the commit of a GPU's row, and whether npformer's kernels are the same now."""
    about, kernels = document["machine"], "–"
    if row["name"].startswith("npformer"):
        kernels = "as now" if about["kernels"] == machine.kernels() else "changed since"
    return f"{about['GPU'].split(',')[0].removeprefix('NVIDIA ')}, {about['commit']}", kernels
