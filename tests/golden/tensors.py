"""safetensors files as dictionaries of numpy arrays, both ways. Knows nothing of models or cases."""
import json
import struct

import numpy as np

KINDS = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "BOOL": "?", "U8": "u1"}
NAMES = {np.dtype(kind): name for name, kind in KINDS.items()}


def read(path):
    """The file's tensors; they share its bytes and are not writable."""
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]  # 8 bytes: length of the JSON header
    head = json.loads(raw[8:8 + n])
    data = raw[8 + n:]
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], KINDS[t["dtype"]]).reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__"}


def pack(tensors):
    """The bytes of a file that holds `tensors`."""
    head, parts, at = {}, [], 0
    for name, t in tensors.items():
        parts.append(t.tobytes())
        head[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
