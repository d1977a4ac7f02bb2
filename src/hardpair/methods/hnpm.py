"""HNPM: contrastive learning with hard negative pair mining.

A teacher, trained by gradient, sees the augmented image; a student, its moving average, sees the plain one. The
loss pulls the two outputs of an image together and pushes apart the pairs of different images that are too near.

Paper:   Zhu et al., "Contrastive Self-Supervised Learning with Hard Negative Pair Mining".
Loss:    alpha_pos · E[d_ii] - alpha_neg · E[log Σ_mined d_ij], d a squared distance of normalised outputs (Eq. 2-7).
Differs: teacher and student swap their usual roles: here the TEACHER learns and the STUDENT is averaged, and tau
         multiplies the old student (1: it never moves, 0: it is a copy). docs/explanation/method.md lists all readings.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from hardpair import distributed
from hardpair.errors import UserError, require_range
from hardpair.losses import dissimilarity, hard_negatives, hnpm_loss
from hardpair.methods.method import Method, Pairs
from hardpair.methods.small_views import SmallViews
from hardpair.models import Encoder, average_into, averaged_copy, build_head
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view, plain_view, two_views


class HNPM(Method):
    """Hard negative pair mining. The defaults are the paper's; recipes hold the settings that work better.

    Args:
        encoder: the teacher's encoder; the student starts as its copy.
        head_hidden: width of the head's hidden layer; 0 makes the head linear.
        head_outputs: width of the head's output; 0 means no head, as in the paper.
        teacher_view: augmentation of the teacher's image.
        student_view: what the student sees; "plain" in the paper, an augmentation works better on small images.
        alpha_pos: weight of the positive pairs, L1.
        alpha_neg: weight of the mined negative pairs, L2.
        threshold: a pair of different images at most this far apart is a hard negative.
        norm: outputs are divided by this norm.
        reduce: a distance is the sum or the mean of squared differences.
        mine: off, every other image of the batch is a negative.
        nearest: an anchor keeps only the nearest of its hard negatives, as the paper's text has it beside Eq. 5.
        softness: 0 weighs all hard negatives of an anchor alike, as in the paper. If > 0, closer negatives get an
            exponentially larger weight, by a factor of e for each such distance, and the teacher's outputs are
            negatives of each other as well.
        positive_in_sum: with softness, the positive pair is in the sum too, as in InfoNCE; off, the sum is decoupled.
        small_views: further views of the teacher, smaller than the others; the loss is the mean over all its views.
        small_size: side of a small view as a share of that of the others.
        tau: share of the old student kept at each step.
        block_student_gradient: off, the student is trained by gradient instead of being averaged.
        share_weights: the student is the teacher itself. With its gradient blocked it is a stopped partner, as in
            SimSiam, without a trained one, as in SimCLR; tau does not count then.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 0,
        head_outputs: int = 0,
        teacher_view: PolicyName = "paper",
        student_view: Literal["plain", PolicyName] = "plain",
        alpha_pos: float = 0.8,
        alpha_neg: float = 0.1,
        threshold: float = 1.0,
        norm: Literal["inf", "l2"] = "inf",
        reduce: Literal["sum", "mean"] = "sum",
        mine: bool = True,
        nearest: bool = False,
        softness: float = 0.0,
        positive_in_sum: bool = False,
        small_views: int = 0,
        small_size: float = 2 / 3,
        tau: float = 0.5,
        block_student_gradient: bool = True,
        share_weights: bool = False,
    ) -> None:
        super().__init__()
        require_range("tau", tau, 0, 1)
        require_range("threshold", threshold, 0, math.inf)
        require_range("alpha_pos", alpha_pos, 0, math.inf)
        require_range("alpha_neg", alpha_neg, 0, math.inf)
        require_range("softness", softness, 0, math.inf)
        self.encoder = encoder
        self.head = build_head(encoder.num_features, hidden=head_hidden, outputs=head_outputs)
        if positive_in_sum and not softness:
            raise UserError("positive_in_sum: is for the soft form; give --softness too")
        self.student = None if share_weights else averaged_copy(nn.Sequential(self.encoder, self.head))
        if self.student is not None:
            self.student.requires_grad_(not block_student_gradient)
        self.teacher_view, self.student_view = teacher_view, student_view
        self.alpha_pos, self.alpha_neg, self.threshold = alpha_pos, alpha_neg, threshold
        self.norm: Literal["inf", "l2"] = norm
        self.reduce: Literal["sum", "mean"] = reduce
        self.mine, self.nearest = mine, nearest
        self.softness, self.positive_in_sum = softness, positive_in_sum
        self.small = SmallViews(small_views, small_size)
        self.tau, self.block_student_gradient = tau, block_student_gradient

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """The teacher's augmented image, the student's plain one, and small ones of the teacher."""
        if self.student_view == "plain":
            augmented = augmented_view(images, POLICIES[self.teacher_view], draw.within("teacher"))
            pair = [augmented, plain_view(images, draw.size)]
        else:
            pair = two_views(images, self.teacher_view, self.student_view, draw, scopes=("teacher", "student"))
        return [*pair, *self.small.of(images, self.teacher_view, draw, self.encoder, pair[0])]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Eq. 1 and Eq. 7."""
        augmented, plain, *small = views
        # The student first: its memory is free again before the teacher fills it with what backward needs.
        with torch.set_grad_enabled(not self.block_student_gradient and torch.is_grad_enabled()):
            u_prime = self._student_outputs(plain)  # (N, D)
        features = self.encoder(augmented)
        parts = [self._loss(self.head(features), u_prime)]
        parts += [self._loss(self.head(self.encoder(view)), u_prime) for view in small]
        means = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
        return {**means, "features": features.detach()}

    def _student_outputs(self, plain: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.encoder(plain)) if self.student is None else self.student(plain)
        return outputs

    def _loss(self, u: Tensor, u_prime: Tensor) -> dict[str, Tensor]:
        return hnpm_loss(
            u,
            u_prime,
            alpha_pos=self.alpha_pos,
            alpha_neg=self.alpha_neg,
            threshold=self.threshold,
            norm=self.norm,
            reduce=self.reduce,
            mine=self.mine,
            nearest=self.nearest,
            softness=self.softness,
            positive_in_sum=self.positive_in_sum,
        )

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """Eq. 6: the student follows the teacher."""
        if self.block_student_gradient and self.student is not None:
            average_into(self.student, self.encoder, self.head, keep=self.tau)

    @torch.no_grad()
    def hard_pairs(self, views: list[Tensor]) -> Pairs:
        """Eq. 5 for this batch."""
        augmented, plain = views[:2]
        outputs = self.head(self.encoder(augmented)), self._student_outputs(plain)
        u, u_prime = map(distributed.gather, outputs)
        distance = dissimilarity(u_prime, u, norm=self.norm, reduce=self.reduce)
        mined = hard_negatives(distance, threshold=self.threshold if self.mine else math.inf, nearest=self.nearest)
        anchor, negative = mined.nonzero(as_tuple=True)
        return Pairs(anchor, negative, distance[anchor, negative])
