"""What was varied, group by group, in the order in which the study went on (docs/log.md, parts one to four)."""

from collections.abc import Iterator

from search import again, searched
from variants import BEFORE, fields, now, now_trial, rival, simclr, small, small40, soft, trial, vary

from hardpair.sweep.variants import Variant


def _map_now() -> Iterator[Variant]:
    for ratio in (0.5, 1.0, 2.0):
        for threshold in (1.0, 1.2, 1.4, 1.8):
            if (ratio, threshold) != (1.0, 1.4):
                yield now(f"alpha ratio {ratio:g}, threshold {threshold:g}", alpha_neg=ratio, threshold=threshold)


def _map_of_eq4() -> Iterator[Variant]:
    for ratio, threshold in ((0.125, 1.0), (0.125, 0.15), (0.5, 0.6), (1.0, 1.0), (1.0, 1.4), (2.0, 2.0)):
        name = f"Eq. 4, alpha ratio {ratio:g}, threshold {threshold:g}"
        yield now(name, softness=0.0, alpha_neg=ratio, threshold=threshold)


GROUPS: dict[str, tuple[Variant, ...]] = {
    "base": (vary("demo/hnpm"),),
    "rate": (
        *(fields(f"rate {rate:g}", learning_rate=rate) for rate in (3e-4, 2e-3, 4e-3)),
        fields("schedule: steps", schedule="steps"),
        fields("warm-up of one epoch", warmup_epochs=1.0),
        fields("weight decay 1e-4", weight_decay=1e-4),
    ),
    # At the better learning rate.
    "second": (
        trial("rate 0.002, predictor", rate=2e-3, predictor=512),
        trial("rate 0.002, predictor, tau .9", rate=2e-3, predictor=512, tau=0.9),
        trial("rate 0.002, both, among teachers", rate=2e-3, anchors="both", among_teachers=True),
        trial("rate 0.002, head 1024-256", rate=2e-3, head_hidden=1024, head_outputs=256),
        trial("rate 0.002, teacher at 24 px", rate=2e-3, crop_size=24, epochs=12),
    ),
    # Smaller views for all, and the epochs they pay for.
    "sizes": tuple(
        vary(
            f"{method} at 24 px, rate 0.002",
            BEFORE[f"demo/{method}"],
            {"epochs": epochs, "learning_rate": 2e-3, "method": f"{method}24"},
            f"demo/{method}",
        )
        for method, epochs in (("hnpm", 14), ("simclr", 9))
    ),
    # Mining once more, where all learn faster.
    "small": (
        small("soft 0.2, all", form="soft", softness=0.2, threshold=9.0),
        small("soft 0.4, all", form="soft", threshold=9.0),
        small("soft 0.4, threshold 1.2", form="soft"),
        small("soft 0.4, all, both", form="soft", threshold=9.0, anchors="both"),
        small("soft 0.4, all, both, among teachers", form="soft", threshold=9.0, anchors="both", among_teachers=True),
        small("relative 1.5", rule="relative", threshold=1.5),
        small("nearest 20 %", rule="nearest"),
        small("both, among teachers", anchors="both", among_teachers=True),
    ),
    "together": (
        small(
            "relative 1.5, both, among teachers", rule="relative", threshold=1.5, anchors="both", among_teachers=True
        ),
        small("threshold 1.4, both, among teachers", threshold=1.4, anchors="both", among_teachers=True),
        small("relative 2, both, among teachers", rule="relative", threshold=2.0, anchors="both", among_teachers=True),
        small(
            "soft 0.2, all, both, among teachers",
            form="soft",
            softness=0.2,
            threshold=9.0,
            anchors="both",
            among_teachers=True,
        ),
        small("batch 320", batch_size=320),
        small(
            "soft 0.2, threshold 1.4, both, among teachers",
            form="soft",
            softness=0.2,
            threshold=1.4,
            anchors="both",
            among_teachers=True,
        ),
        vary(
            "simclr at 24 px, temperature 0.1, rate 0.002",
            {**BEFORE["demo/simclr"], "temperature": 0.1},
            {"epochs": 9, "learning_rate": 2e-3, "method": "simclr24"},
            "demo/simclr",
        ),
        vary(
            "simclr at 24 px, rate 0.004",
            BEFORE["demo/simclr"],
            {"epochs": 9, "learning_rate": 4e-3, "method": "simclr24"},
            "demo/simclr",
        ),
    ),
    # Around the best of these.
    "third": (
        soft("softness 0.1", softness=0.1),
        soft("teacher 16 px, student 24 px", epochs=24, crop_size=16),
        soft("softness 0.1, teachers alone are anchors", softness=0.1, anchors="teacher"),
        soft("tau 0.9", tau=0.9),
        soft("softness 0.1, threshold 1.2", softness=0.1, threshold=1.2),
        soft("teacher 20 px, student 24 px", epochs=18, crop_size=20),
    ),
    # The trained branch is the dear one: what if it sees a large and a small view, or the student's is smaller?
    "crops": (
        soft("teacher also 16 px", epochs=10, extra_size=16),
        soft("teacher also 16 px, crops of 5 to 50 %", epochs=10, extra_size=16, extra_view="part"),
        soft("teacher 20 px and 16 px", epochs=13, crop_size=20, extra_size=16),
        soft("teacher also 12 px", epochs=12, extra_size=12),
        soft("teacher also twice 16 px", epochs=8, extra_size=16, extras=2),
        soft("teacher also 20 px", epochs=9, extra_size=20),
    ),
    # A wider pool of candidates, of batches that are not long past.
    "queues": (
        soft("batch 80, queue 480", queue=480, more={"batch_size": 80}),
        soft("guard 10 %", guard=0.1),
        soft("batch 80", more={"batch_size": 80}),
        soft("teacher also 16 px, batch 40", epochs=10, extra_size=16, more={"batch_size": 40}),
    ),
    "batches": (
        simclr("24 px, temperature 0.1, batch 40", temperature=0.1, more={"batch_size": 40}),
        soft("teacher also 16 px, batch 20", epochs=10, extra_size=16, more={"batch_size": 20}),
        simclr("24 px, temperature 0.2, batch 40", temperature=0.2, more={"batch_size": 40}),
        soft("batch 40", more={"batch_size": 40}),
    ),
    # Is a small view, or a small batch, all it takes? And once more around the best.
    "why": (
        simclr("also 16 px, batch 40", 7, size="small", temperature=0.1, more={"batch_size": 40}),
        small40("tau 0.9", tau=0.9),
        simclr("also 16 px, batch 80", 7, size="small", temperature=0.1, more={"batch_size": 80}),
        small40("rate 0.001", rate=1e-3),
        small40("threshold 1.2, softness 0.1", threshold=1.2, softness=0.1),
        small40("all, softness 0.2", threshold=9.0),
        small40("tau 0", tau=0.0),
        small40("log of the sum, threshold 1.2", form="log_sum", threshold=1.2),
        small40("student plain", student_view="plain"),
    ),
    # Is it the small view and the small batches alone, with the paper's own Eq. 4?
    "paper": (
        vary(
            "hnpm with a small view, batch 40: Eq. 4, threshold 1.2",
            {"small_views": 1, "threshold": 1.2},
            {"epochs": 10, "learning_rate": 2e-3, "view_size": 0.75, "batch_size": 40},
        ),
    ),
    # What both share.
    "shared": (
        soft("teacher also 16 px, batch 80", epochs=10, extra_size=16, more={"batch_size": 80}),
        simclr("24 px, temperature 0.1, batch 80", temperature=0.1, more={"batch_size": 80}),
    ),
    "rivals24": (
        rival("moco", "one-sided, batch 80", 14, symmetric=False),
        rival("byol", "rate 0.001, batch 80", 7, rate=1e-3),
        rival("simsiam", "rate 0.001, batch 80", 9, rate=1e-3),
        rival("byol", "batch 80", 7),
        rival("simsiam", "batch 80", 9),
        rival("moco", "batch 80", 7),
        rival("byol", "momentum 0.9, batch 80", 7, momentum=0.9),
        rival("byol", "batch 40", 7, batch=40),
        rival("moco", "one-sided, batch 40", 14, batch=40, symmetric=False),
        rival("simsiam", "rate 0.001, batch 40", 9, rate=1e-3, batch=40),
        rival("moco", "one-sided, momentum 0.9, batch 80", 14, symmetric=False, momentum=0.9),
        rival("byol", "momentum 0.5, batch 80", 7, momentum=0.5),
        rival("byol", "momentum 0.9, batch 40", 7, batch=40, momentum=0.9),
    ),
    # As many trials for each of the others: its own most sensitive setting, and the learning rate.
    "rivals": (
        *(
            vary(f"simclr, temperature {t:g}", {"temperature": t}, {"epochs": 5}, "demo/simclr")
            for t in (0.1, 0.2, 0.3, 0.5)
        ),
        *(vary(f"moco, temperature {t:g}", {"temperature": t}, {"epochs": 4}, "demo/moco") for t in (0.1, 0.2)),
        *(vary(f"byol, momentum {m:g}", {"momentum": m}, {"epochs": 4}, "demo/byol") for m in (0.9, 0.99)),
        *(
            vary(f"{method}, rate 0.002", {}, {"epochs": epochs, "learning_rate": 2e-3}, f"demo/{method}")
            for method, epochs in (("simclr", 5), ("moco", 4), ("byol", 4), ("simsiam", 5))
        ),
        vary("simsiam", {}, {"epochs": 5}, "demo/simsiam"),
        vary("moco, one-sided", {"symmetric": False}, {"epochs": 8}, "demo/moco"),
    ),
}

# The required map, around what won.
GROUPS["now"] = (
    now("demo/hnpm"),
    now("all pairs", mine=False),
    now("tau 0.99", tau=0.99),
    now("tau 0.999", tau=0.999),
    now("infinity norm", norm="inf"),
    now("infinity norm, threshold 2", norm="inf", threshold=2.0),
    now("mean", reduce="mean"),
    now("mean, threshold and softness divided by 128", reduce="mean", threshold=1.4 / 128, softness=0.2 / 128),
    now("no head", head_hidden=0, head_outputs=0),
    now("linear head", head_hidden=0),
    now("head 1024-256", head_hidden=1024, head_outputs=256),
    *(
        now_trial(f"crops from {p} %", **dict.fromkeys(("teacher_view", "student_view", "extra_view"), f"balanced{p}"))
        for p in (8, 50, 80)
    ),
    now("student: plain", student_view="plain"),
    now("student: crop and flip", student_view="crop"),
    now_trial("corrected InfoNCE, all pairs", form="infonce", threshold=9.0),
    now_trial("tau from .5 to 1", tau_end=1.0),
    now_trial("symmetric, three epochs", epochs=3, symmetric=True),
)
GROUPS["search"], GROUPS["again"] = searched(), again()
GROUPS["mapnow"] = (*_map_now(), *_map_of_eq4())

# To be run over several seeds.
_BEST = (
    "24 px: soft 0.2, all, both, among teachers",
    "24 px: soft 0.2, threshold 1.4, both, among teachers",
    "simclr at 24 px, rate 0.002",
    "simclr at 24 px, temperature 0.1, rate 0.002",
    "best: teacher also 16 px",
)
_KEPT = (
    "half: demo/hnpm",
    "half: all pairs",
    "half: Eq. 4, alpha ratio 1, threshold 1",
    "half: Eq. 4, alpha ratio 0.125, threshold 1",
    "half: Eq. 4, alpha ratio 0.125, threshold 0.15",
)
for _group, _names in (("best", _BEST), ("kept", _KEPT)):
    GROUPS[_group] = tuple(v for group in list(GROUPS.values()) for v in group if v.label in _names)
