"""How much of the tests runs: a sample of the cases, as a rule; all of them (--full); a first quick look (-m smoke).

The quick look is the first case of each test of the mathematics and of what is made of it, on NumPy alone: Numba is
as good as not installed, and a test that starts another process is skipped, so nothing is compiled.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from npformer.backend import select
from tests.sampling import sampled

#: Folders whose tests are in the quick look: of each file the first FEW test functions, of each the first case, …
SMOKE, FEW = ("functional", "layers", "models", "optim", "proof", "engine", "training", "decoding", "data", "cli"), 3
#: … but for files that import subprocess, tests that ask for another process, and those of some 0.4 seconds.
OTHER_PROCESS = {"shell", "environment"}
SLOW = {
    "cli/test_bench.py": (
        "test_the_table_of_a_profile", "test_the_numbers_of_a_profile", "test_a_step_in_words",
        "test_a_step_in_numbers", "test_it_says_how_many_threads_share_the_batch",
    ),
    "cli/test_certify.py": ("test_every_claim_holds_for_what_is_selected",),
    "cli/test_decode.py": (
        "test_arguments_and_standard_input_give_the_same_output", "test_options_may_stand_anywhere",
        "test_a_texts_output_does_not_depend_on_the_batch",
    ),
    "cli/test_explain.py": ("test_a_number_of_a_run_is_explained",),
    "cli/test_gradcheck_model.py": ("test_sweep", "test_bisect", "test_a_right_model", "test_a_wrong_model_and_why"),
    "cli/test_grade.py": (
        "test_a_right_answer", "test_a_wrong_answer_and_the_generosity_of_hints", "test_json",
        "test_several_exercises_in_one_file", "test_a_template_is_written_once",
        "test_templates_with_parts_run_without_the_grader", "test_the_list_shows_order_and_progress",
        "test_a_corrupt_progress_file_is_not_changed", "test_progress_can_be_switched_off",
    ),
    "cli/test_odd_text.py": ("test_the_errors_prints_and_warnings_of_a_graded_file",),
    "cli/test_tasks.py": (
        "test_a_run_has_everything_for_decoding", "test_answers_have_the_form_of_their_kind", "test_a_run_can_decode",
        "test_a_run_resumes",
    ),
    "cli/test_train.py": (
        "test_every_task_trains_and_leaves_a_run",
        "test_json_is_one_document_and_nothing_else_is_on_stdout", "test_a_seed_determines_everything",
        "test_a_measure_of_nan_is_null_in_json", "test_what_to_try_next_can_be_pasted",
    ),
    "cli/test_train_resume.py": (
        "test_a_finished_run_prints_its_results_again_and_changes_nothing",
        "test_the_advice_for_a_damaged_checkpoint_works",
    ),
    "cli/test_train_own_text.py": ("test_a_prompt_is_continued_as_it_is", "test_a_text_becomes_samples"),
    "data/real/test_dates.py": ("test_a_phrase_is_what_babel_writes_and_knows_its_fields",),
    "data/test_every_task.py": (
        "test_a_batch_is_a_function_of_seed_step_and_size", "test_batches_keep_to_their_shapes_and_bounds",
        "test_max_length_is_that_of_the_longest",
    ),
    "data/real/test_corpora.py": (
        "test_splits_have_the_published_sizes", "test_jump_is_trained_alone_and_held_out_in_company",
        "test_what_is_held_out_of_length_is_longer_than_all_that_is_trained",
        "test_pieces_are_learnt_from_the_training_side_alone",
    ),
    "data/test_sequences.py": ("test_another_process_draws_the_same",),
    "proof/test_bisect.py": (
        "test_nothing_to_look_for", "test_a_shared_layer",
        "test_a_wrong_operation_in_one_layer_of_a_model", "test_a_layer_that_puts_right_parts_together_wrongly",
        "test_of_two_wrong_places_the_one_that_backward_meets_first", "test_everything_is_restored",
    ),
    "decoding/test_beam_search.py": ("test_a_beam_wide_enough_finds_the_best_text_there_is",),
    "proof/test_claims.py": ("test_every_identity_holds_somewhere", "test_every_invariant_has_something_to_say"),
    "proof/test_random_cases.py": ("test_no_right_model_is_called_wrong",),
    "proof/test_breakers.py": ("test_a_network_wired_wrongly_has_right_gradients",),
    "proof/test_regions.py": ("test_one_hidden_entry_is_found_that_directions_do_not_see",),
    "proof/test_repairs.py": (
        "test_of_two_mistakes_both_are_found", "test_one_mistake_is_named_for_all_that_it_spoils",
    ),
    "proof/test_repairs_places.py": (
        "test_a_file_of_the_users", "test_a_function_that_the_backward_calls_in_another_file",
        "test_statistics_that_were_taken_for_constants",
    ),
    "proof/test_strategies.py": ("test_every_side_that_is_liked_occurs_and_others_do",),
    "training/test_bench.py": ("test_the_parts_add_up_to_a_step",),
    "training/test_model_file.py": ("test_every_truncation_is_refused",),
    "training/test_interrupts.py": ("test_the_state_is_the_one_that_the_count_names",),
    "engine/test_shards.py": (
        "test_one_seed_and_one_thread_count_give_the_same_run_to_the_bit",
        "test_the_cases_can_tell_a_wrong_share_and_a_wrong_mask", "test_any_number_of_threads_gives_the_result_of_one",
    ),
}  # fmt: skip
HERE = Path(__file__).parent
COUNTS = pytest.StashKey[tuple[int, int]]()


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every case of every test, not a sample of them")


def pytest_configure(config):
    if is_smoke(config):
        sys.modules["numba"] = None
        select.find_spec = lambda name: None


def is_smoke(config):
    """Whether this is the quick look."""
    return bool(config.getoption("markexpr") == "smoke")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    """During the tests no process is started; a library may start one when it is imported, before or after them."""
    start = subprocess.Popen.__init__
    if is_smoke(session.config) and not getattr(session.config.option, "numprocesses", None):  # those do the work
        subprocess.Popen.__init__ = _refused
    try:
        return (yield)
    finally:
        subprocess.Popen.__init__ = start


def _refused(self, *arguments, **options):
    pytest.skip("the quick look starts no process")


def pytest_ignore_collect(collection_path, config):
    """What the quick look has nothing of is not even imported."""
    return True if is_smoke(config) and _place(collection_path)[:1] not in [(), *((name,) for name in SMOKE)] else None


def _place(path):
    """Where a file is among the tests."""
    return path.relative_to(HERE).parts if path.is_relative_to(HERE) else ()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what is for the quick look; leave out what is not of the sample."""
    kept = sampled(items)
    _mark_smoke(kept)
    named = config.getoption("keyword") or any("::" in argument for argument in config.args)
    if config.getoption("full") or named:  # who names tests gets all their cases
        return
    config.stash[COUNTS] = len(kept), len(items)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _mark_smoke(items):
    """Mark the first case of some functions of each file, in which nothing that is compiled is asked for by name."""
    functions = {}
    for item in items:
        function, seen = item.nodeid.partition("[")[0], functions.setdefault(item.path, set())
        if len(seen) < FEW and function not in seen and _is_quick(item):
            seen.add(function)
            item.add_marker("smoke")


def _is_quick(item):
    place = _place(item.path)
    given = map(str, item.callspec.params.values()) if hasattr(item, "callspec") else ()
    slow = item.originalname in SLOW.get("/".join(place), ()) or OTHER_PROCESS.intersection(item.fixturenames)
    slow = slow or "subprocess" in vars(item.module)
    return place[:1] in [(name,) for name in SMOKE] and not slow and "numba" not in given


def pytest_sessionfinish(session):
    output = getattr(session.config, "workeroutput", None)
    if output is not None and COUNTS in session.config.stash:
        output["sampled"] = session.config.stash[COUNTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """A process of pytest-xdist has ended: what it collected is what every other did."""
    if "sampled" in getattr(node, "workeroutput", {}):
        node.config.stash[COUNTS] = node.workeroutput["sampled"]


def pytest_terminal_summary(terminalreporter, config):
    if COUNTS in config.stash:
        kept, total = config.stash[COUNTS]
        terminalreporter.write_line(f"{kept} of {total} cases sampled; all: python -m pytest --full")
