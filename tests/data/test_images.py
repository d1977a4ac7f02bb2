import torch

from hardpair.data import Images


def some_images() -> Images:
    pixels = torch.arange(5 * 3 * 2 * 2, dtype=torch.uint8).reshape(5, 3, 2, 2)
    return Images(pixels, torch.tensor([0, 1, 0, 1, 0]), ("a", "b"), "some/train", skipped=("x.jpg: broken",))


def test_select_keeps_order_labels_and_skipped() -> None:
    images = some_images()
    chosen = images.select(torch.tensor([4, 1]))
    assert torch.equal(chosen.pixels, images.pixels[[4, 1]])
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [0, 1]
    assert (len(chosen), chosen.size, chosen.skipped) == (2, 2, images.skipped)


def test_select_without_labels() -> None:
    images = some_images()
    unlabelled = Images(images.pixels, None, (), "some/train")
    assert unlabelled.select(torch.tensor([0])).labels is None
    assert unlabelled.skipped == ()


def test_digest_sees_every_pixel_and_label() -> None:
    images, other = some_images(), some_images()
    assert images.digest() == other.digest()
    repainted, relabelled = some_images(), some_images()  # fresh ones: images do not change, so the hash is kept
    repainted.pixels[-1, -1, -1, -1] += 1
    assert images.digest() != repainted.digest()
    assert relabelled.labels is not None
    relabelled.labels[3] = 0
    assert images.digest() != relabelled.digest()


def test_a_selection_copies_nothing_until_it_is_asked() -> None:
    images = some_images()
    twice = images.select(torch.tensor([4, 1, 3])).select(torch.tensor([2, 0]))
    assert twice.block is images.block
    assert torch.equal(twice.pixels, images.pixels[[3, 4]])
    assert torch.equal(twice.batch(torch.tensor([1])), images.pixels[[4]])
    assert torch.equal(torch.cat(list(twice.batches(1))), images.pixels[[3, 4]])
    assert twice.digest() == Images(images.pixels[[3, 4]], twice.labels, images.classes, "other").digest()


def test_the_centre() -> None:
    large = Images(torch.arange(48, dtype=torch.uint8).reshape(1, 3, 4, 4), None, (), "large")
    assert large.centre(2).pixels[0, 0].tolist() == [[5, 6], [9, 10]]
