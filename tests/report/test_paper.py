"""What was measured, beneath the paper's tables: where it stands, what is averaged, what is left out."""

import json
import math
from html import unescape
from pathlib import Path

import pytest
from paper_runs import RECIPE, measured, score, tables, top, transfer, write_run

from hardpair.errors import UserError
from hardpair.report.paper import write_paper

STRANGE = "<b>x</b>\x1b[31m&\n"


def mean_and_spread(*values: float) -> str:
    """From the definitions: the sample standard deviation divides by one less than the number."""
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return f"{mean:.1f} ± {spread:.1f} ({len(values)})"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "paper.html"


def test_seeds_are_averaged_and_the_random_encoder_stands_beneath(tmp_path: Path, page: Path) -> None:
    values = (40.25, 43.5, 41.0)
    runs = [
        write_run(tmp_path / str(seed), "simclr", score("linear", top(value)), seed=seed)
        for seed, value in enumerate(values)
    ]
    write_paper(runs, page)
    rows = measured(page, 1)
    assert rows["SimCLR"] == (mean_and_spread(*values), "91.2 ± 0.0 (3)")
    assert rows["randomly initialised"][0] == mean_and_spread(*(value / 2 for value in values))
    assert list(rows)[:-1] == [
        "Method", "CPCv2", "CMC", "SimCLR", "MoCov2", "SimCLRv2", "InfoMin Aug.", "BYOL", "Ours (HNPM)",
    ]  # fmt: skip
    assert all(cells == ("–", "–") for name, cells in list(rows.items())[1:-1] if name != "SimCLR")


def test_methods_beyond_the_paper_get_rows_and_streams_a_random_encoder_of_their_own(
    tmp_path: Path, page: Path
) -> None:
    runs = [
        write_run(tmp_path / name, name, score("linear", top(30.0 + i))) for i, name in enumerate(("cmc", "simsiam"))
    ]
    write_paper(runs, page)
    rows = measured(page, 1)
    assert rows["CMC"][0] == "30.0 (1)"
    assert list(rows.items())[-3:] == [
        ("SimSiam", ("31.0 (1)", "91.2 (1)")),
        ("randomly initialised, CMC's form", ("15.0 (1)", "45.6 (1)")),
        ("randomly initialised", ("15.5 (1)", "45.6 (1)")),
    ]


def test_data_set_and_scale_never_mix(tmp_path: Path, page: Path) -> None:
    other = {"train": {"name": "cifar10/train"}, "test": {"name": "cifar10/test", "images": 10000}}
    changes = [
        {}, {"epochs": 20}, {"encoder": "resnet34"}, {"width": 1.0}, {"sk": True}, {"small_images": False},
        {"data": "cats"},
    ]  # fmt: skip
    runs = [
        write_run(tmp_path / str(place), "byol", score("linear", top(50.0 + place)), **change)
        for place, change in enumerate(changes)
    ]
    elsewhere = [score("linear", top(60.0), data=other), score("linear", top(61.0), {"a": 1}, image_size=64)]
    write_paper([*runs, write_run(tmp_path / "elsewhere", "byol", *elsewhere)], page)
    assert [measured(page, 1, place)["BYOL"][0] for place in range(9)] == [
        *(f"{50 + place}.0 (1)" for place in range(7)), "60.0 (1)", "61.0 (1)",
    ]  # fmt: skip
    titles = [title for kind, title, _ in tables(page)[1] if kind == "measured"]
    assert len(set(titles)) == 9
    tested, stem = "Measured Tested on photos/test (1,000 images) at 32 px. ", "stem for small images, "
    assert titles[0] == f"{tested}ResNet-18 0.5×, {stem}trained on photos for 10 epochs."
    assert titles[4] == f"{tested}ResNet-18 0.5× with selective kernels, {stem}trained on photos for 10 epochs."
    assert titles[7].startswith("Measured Tested on cifar10/test (10,000 images) at 32 px. ")


def test_recipes_that_differ_are_never_averaged(tmp_path: Path, page: Path) -> None:
    runs = [
        write_run(
            tmp_path / f"{batch}-{seed}", "byol", score("linear", top(batch / 10 + seed)), batch_size=batch, seed=seed
        )
        for batch in (160, 320)
        for seed in (0, 1)
    ]
    runs.append(write_run(tmp_path / "again", "byol", score("linear", top(18.0)), name="renamed"))
    write_paper(runs, page)
    rows = measured(page, 1)
    assert rows["BYOL, batch size 160"][0] == mean_and_spread(17.0, 17.0)  # seed 0 was measured as 16 and as 18
    assert rows["BYOL, batch size 320"][0] == mean_and_spread(32.0, 33.0)


def test_recipes_with_names_of_their_own_go_by_them(tmp_path: Path, page: Path) -> None:
    for name, batch in (("small", 16), ("large", 4096)):
        write_run(tmp_path / name, "byol", score("linear", top(batch / 100)), name=name, batch_size=batch)
    write_paper([tmp_path / "small", tmp_path / "large"], page)
    rows = measured(page, 1)
    assert (rows["BYOL, small"][0], rows["BYOL, large"][0]) == ("0.2 (1)", "41.0 (1)")


def test_two_forms_of_a_protocol_have_lines_that_are_told_apart_briefly(tmp_path: Path, page: Path) -> None:
    forms = [{"strengths": [0.1] * 40, "held_share": 0.2}, {"form": "augmented", "epochs": 80, "rate": 0.2}]
    scores = [score("linear", top(50.0 + place), form) for place, form in enumerate(forms)]
    write_paper([write_run(tmp_path / "run", "byol", *scores)], page)
    rows = measured(page, 1)
    assert (rows["BYOL"][0], rows["BYOL, linear form augmented"][0]) == ("50.0 (1)", "51.0 (1)")
    assert (rows["randomly initialised"][0], rows["randomly initialised, linear form augmented"][0]) == (
        "25.0 (1)",
        "25.5 (1)",
    )


@pytest.mark.parametrize(
    ("shape", "linear", "semi"),
    [
        ({"encoder": "resnet18", "width": 0.5}, 1, 3),
        ({"encoder": "resnet50", "width": 1.0}, 1, 3),
        ({"encoder": "resnet50", "width": 2}, 2, 4),
        ({"encoder": "resnet200", "width": 2.0, "sk": False}, 2, 4),
        ({"encoder": "resnet152", "width": 3.0, "sk": True}, 2, 4),
    ],
)
def test_the_encoder_decides_between_tables(
    tmp_path: Path, page: Path, shape: dict[str, object], linear: int, semi: int
) -> None:
    scores = [score("linear", top(55.5)), score("semi", top(44.4), {"labels": 0.01})]
    write_paper([write_run(tmp_path / "run", "byol", *scores, **shape)], page)
    assert {number for number, shown in tables(page).items() if len(shown) > 1} == {linear, semi}
    assert measured(page, linear)["BYOL"] == ("55.5 (1)", "91.2 (1)")
    assert measured(page, semi)["BYOL"] == ("44.4 (1)", "91.2 (1)", "–", "–")


def test_of_two_streams_the_paper_counts_one_but_two_halves_stand_for_a_whole(tmp_path: Path, page: Path) -> None:
    runs = [
        write_run(tmp_path / str(width), "cmc", score("linear", top(60 + width)), encoder="resnet50", width=width)
        for width in (1.0, 2.0, 4.0)
    ]
    runs.append(write_run(tmp_path / "byol", "byol", score("linear", top(70.0)), encoder="resnet50", width=1.0))
    write_paper(runs, page)
    rows = measured(page, 1)
    halves, wholes = (f"width of a stream {width}" for width in ("0.5", "1"))
    assert [rows[name][0] for name in (f"CMC, {halves}", f"CMC, {wholes}", "BYOL")] == [
        "61.0 (1)", "62.0 (1)", "70.0 (1)",
    ]  # fmt: skip
    form = "randomly initialised, CMC's form"
    assert [rows[f"{form}, {width}"][0] for width in (halves, wholes)] == ["30.5 (1)", "31.0 (1)"]
    assert measured(page, 2)["CMC"][0] == "64.0 (1)"
    text = unescape(page.read_text())
    assert text.count("two streams of half the width, 12 M") == 1
    assert f"CMC, {halves}: two streams" in text
    assert [title for _, title, _ in tables(page)[2]][1].split(". ")[1].startswith("ResNet-50 2×")


def test_shares_of_labels_share_a_line_but_presets_do_not(tmp_path: Path, page: Path) -> None:
    scores = [
        score("semi", top(value), {"labels": labels, "preset": preset, "subset": f"list {labels}"})
        for value, labels, preset in [
            (10.0, 0.01, "byol"), (20.0, 0.1, "byol"), (30.0, 0.01, "simclr"), (99.0, 0.5, "simclr"),
            (40.0, 0.1, "own"),
        ]
    ]  # fmt: skip
    write_paper([write_run(tmp_path / "run", "simclr", *scores)], page)
    rows = measured(page, 3)
    byol, simclr, own = (
        next(cells for name, cells in rows.items() if f"preset {preset}" in name)
        for preset in ("byol", "simclr", "own")
    )
    assert (byol[0], byol[2]) == ("10.0 (1)", "20.0 (1)")
    assert (simclr[0], simclr[2]) == ("30.0 (1)", "–")
    assert (own[0], own[2]) == ("–", "40.0 (1)")
    assert not any("99" in cell for cells in rows.values() for cell in cells)


def test_settings_that_somebody_chose_do_not_share_a_line_with_others(tmp_path: Path, page: Path) -> None:
    grids = {"food101": {"rates": [0.1] * 40, "steps": 20_000}, "cars": {"rates": [0.1], "steps": 500}}
    scores = [transfer(name, "finetune", "top1", 30.0) for name in grids]
    for one in scores:
        name = one["settings"]["set"]
        one["settings"] |= grids[name]
        one["data"] = {part: {"name": f"{name}/{part}", "digest": f"{name}{part}"} for part in ("train", "test")}
    few = [
        score("semi", top(10.0), {"labels": 0.01, "preset": "simclr", "epochs": [1], "batch_size": 8}),
        score("semi", top(20.0), {"labels": 0.1, "preset": "simclr", "epochs": [30], "batch_size": 8}),
    ]
    write_paper([write_run(tmp_path / "run", "byol", *scores, *few)], page)
    rows = {name: cells for name, cells in measured(page, 6).items() if name.startswith("BYOL")}
    long, short = rows.values()
    assert (long[0], long[3], short[0], short[3]) == ("30.0 (1)", "–", "–", "30.0 (1)")
    assert [name.split("transfer")[-1] for name in rows] == [" steps 20000", " steps 500"]
    assert not any("images" in name for name in rows)  # their hashes tell a reader nothing
    rows = measured(page, 3)
    assert rows["BYOL, semi epochs [1]"][::2] == ("10.0 (1)", "–")
    assert rows["BYOL, semi epochs [30]"][::2] == ("–", "20.0 (1)")


def test_a_batch_that_is_another_in_other_columns_is_said_beneath(tmp_path: Path, page: Path) -> None:
    few = [
        score("semi", top(10.0), {"labels": labels, "preset": "simclr", "batch_size": batch})
        for labels, batch in ((0.01, 16), (0.1, 166))
    ]
    text = write_paper([write_run(tmp_path / "run", "byol", *few), write_run(tmp_path / "one", "simclr", few[0])], page)
    assert measured(page, 3)["BYOL"] == ("10.0 (1)", "91.2 (1)", "10.0 (1)", "91.2 (1)")
    beneath = "16 in Top-1 (1 %) and Top-5 (1 %), 166 in Top-1 (10 %) and Top-5 (10 %): BYOL; randomly initialised."
    assert f"Batches of {beneath}" in text.replace("\n", " ")
    assert beneath in page.read_text(encoding="utf-8")


def test_distillation_stands_in_table_4_under_the_encoder_it_made(tmp_path: Path, page: Path) -> None:
    big, shape = {"encoder": "resnet152", "width": 3.0, "sk": True}, {"name": "resnet50", "width": 1.0}
    own = score("distill", top(70.0), {"labels": 0.1, "shape": {"name": "resnet152", "width": 3.0, "sk": True}})
    small = [score("distill", top(value), {"labels": 0.01, "shape": shape}) for value in (60.0, 61.0)]
    runs = [write_run(tmp_path / "big", "simclrv2", own, small[0], **big)]
    write_paper([*runs, write_run(tmp_path / "small", "simclrv2", small[1])], page)
    assert measured(page, 4)["SimCLRv2 distilled"] == ("–", "–", "70.0 (1)", "91.2 (1)")
    assert measured(page, 4)["Ours (HNPM)"] == ("–", "–", "–", "–")
    rows = measured(page, 4, 1)
    assert rows["SimCLRv2 distilled, taught by ResNet-152 3× with selective kernels"][0] == "60.0 (1)"
    assert rows["SimCLRv2 distilled, taught by ResNet-18 0.5×"][0] == "61.0 (1)"


def test_transfer_fills_the_column_of_its_set(tmp_path: Path, page: Path) -> None:
    scores = [
        transfer("food101", "linear", "top1", 11.0), transfer("cifar10", "linear", "top1", 12.0),
        transfer("sun397", "linear", "top1", 13.0), transfer("cars", "linear", "top1", 14.0),
        transfer("pets", "linear", "mean_per_class", 15.0), transfer("voc2007", "linear", "map11", 16.0),
        transfer("flowers102", "linear", "mean_per_class", 17.0), transfer("cars", "finetune", "top1", 24.0),
        transfer("pets", "finetune", "top1", 25.0), transfer("mine", "linear", "top1", 26.0),
    ]  # fmt: skip
    write_paper([write_run(tmp_path / "run", "supervised", *scores)], page)
    assert measured(page, 5)["Supervised"] == tuple(f"{value}.0 (1)" for value in range(11, 18))
    assert measured(page, 6)["Supervised"] == ("–", "–", "–", "24.0 (1)", "–", "–", "–")  # pets: another metric


def test_tau_has_a_line_for_runs_that_differ_in_nothing_else(tmp_path: Path, page: Path) -> None:
    runs = [
        write_run(
            tmp_path / f"{tau}-{seed}", "hnpm", score("linear", top(10 * tau + seed)), seed=seed, settings={"tau": tau}
        )
        for tau in (0.5, 0.9, 1.0)
        for seed in (0, 1)
    ]
    settings = {"tau": 0.5, "mine": False}
    runs.append(write_run(tmp_path / "all", "hnpm", score("linear", top(50.0)), settings=settings))
    runs.append(write_run(tmp_path / "byol", "byol", score("linear", top(60.0)), settings={"tau": 0.99}))
    write_paper(runs, page)
    rows = measured(page, 7)
    assert rows["τ"] == ("1.0", "0.999", "0.9", "0.5", "0.0")
    plain, mined = (cells for name, cells in rows.items() if name.startswith("Ours"))
    assert plain == (mean_and_spread(10, 11), "–", mean_and_spread(9, 10), mean_and_spread(5, 6), "–")
    assert mined == ("–", "–", "–", "50.0 (1)", "–")
    assert any("mine false" in name for name in rows)
    assert len(rows) == 4  # the randomly initialised, and nothing of BYOL's


def test_only_test_scores_count(tmp_path: Path, page: Path) -> None:
    unsaid = {key: value for key, value in score("linear", top(63.0)).items() if key != "on"}
    scores = [score("linear", top(61.0)), score("linear", top(62.0), {"a": 1}, on="validation"), unsaid | {"step": 0}]
    text = write_paper([write_run(tmp_path / "a", "byol", scores[1], scores[2])], page)
    assert "a: no test score that these tables have a place for; hardpair evaluate" in text
    assert all(kind == "published" for shown in tables(page).values() for kind, *_ in shown)
    write_paper([write_run(tmp_path / "b", "byol", *scores[:2])], page)
    assert measured(page, 1)["BYOL"][0] == "61.0 (1)"


def test_what_does_not_count_is_said_in_a_line(tmp_path: Path, page: Path) -> None:
    linear = score("linear", top(50.0))
    once, bare = write_run(tmp_path / "once", "byol", linear), write_run(tmp_path / "bare", "byol")
    cut, stale = (
        write_run(tmp_path / name, "byol", {**linear, "recipe_hash": RECIPE["hash"]}) for name in ("cut", "stale")
    )
    (cut / "log.jsonl").write_text('{"event": "start"}\n', encoding="utf-8")
    (stale / "log.jsonl").write_text('{"event": "end", "step": 620}\n', encoding="utf-8")
    with (once / "scores.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"protocol": "lin')
    lines = write_paper([once, bare, cut, stale, once / ".." / "once"], page).splitlines()
    assert f"{once}/../once was given twice and counts once." in lines
    assert f"{once}: scores.jsonl: 1 line could not be read and was left out." in lines
    assert any(line.startswith(f"{bare}: no test score that these tables have a place for") for line in lines)
    assert f"{cut}: training did not come to its end, so its scores are left out." in lines
    assert any(line.startswith(f"{stale}: a score of another recipe or an earlier step left out") for line in lines)
    assert measured(page, 1)["BYOL"][0] == "50.0 (1)"
    with pytest.raises(UserError, match="is not a run"):
        write_paper([once, tmp_path], page)


def test_a_score_of_another_recipe_does_not_count(tmp_path: Path, page: Path) -> None:
    old, new = score("linear", top(40.0), {"a": 1}), score("linear", top(50.0), {"a": 2})
    run = write_run(tmp_path / "run", "byol", {**old, "recipe_hash": "other"}, {**new, "recipe_hash": RECIPE["hash"]})
    assert "a score of another recipe" in write_paper([run], page)
    assert measured(page, 1)["BYOL"][0] == "50.0 (1)"


def test_what_files_say_is_escaped(tmp_path: Path, page: Path) -> None:
    strange = score("linear", top(50.0), {STRANGE: STRANGE})
    strange["data"] = {"test": {"name": STRANGE, "images": 3, "digest": STRANGE}}
    runs = [
        write_run(
            tmp_path / f"<i>{seed}", STRANGE, strange, name=STRANGE, data=STRANGE, encoder=STRANGE, batch_size=seed
        )
        for seed in (1, 2)
    ]
    text = write_paper([*runs, runs[0]], page)
    html = page.read_text(encoding="utf-8")
    assert "\x1b" not in text + html
    assert "<b>" not in html
    assert "<i>" not in html
    assert measured(page, 1)["<b>x</b>?[31m&?, batch size 1"][0] == "50.0 (1)"
    assert "on <b>x</b>?[31m&? (3 images)" in text


@pytest.mark.parametrize("value", [None, "high", [1], {"top1": 3}, True])
def test_scores_of_another_shape_do_not_stop_the_page(tmp_path: Path, page: Path, value: object) -> None:
    fields = ("settings", "metrics", "control", "data", "image_size", "seed", "step")
    broken = [{**score("linear", top(50.0)), name: value} for name in fields]
    run = write_run(tmp_path / "run", "hnpm", *broken, {"on": "test", "protocol": value})
    (run / "recipe.json").write_text(
        json.dumps({**RECIPE, "method": "hnpm", "settings": {"tau": value}}), encoding="utf-8"
    )
    write_paper([run], page)
    assert "50.0 (1)" in page.read_text(encoding="utf-8")
