"""Sets of images that do not fit in memory: decoded once by `hardpair pack`, into files that every process maps.

A packed folder has for each split `train.pixels`, uint8 (N, 3, S, S) and nothing else; `train.labels`, int64 (N,),
where there are labels; `train.names`, the names of the files with a zero byte between them. `quarantine.txt` lists the
files that could not be used, and `duplicates.txt` the images that are there twice. `packed.json` is the index: it holds
the hash of every part of the pixels and of every other file, and is written last; without it, a folder is unfinished.
"""

from hardpair.data.packed.index import is_packed, read_index
from hardpair.data.packed.reading import OtherSizeError, open_packed, refuse_other_size

__all__ = ["OtherSizeError", "is_packed", "open_packed", "read_index", "refuse_other_size"]
