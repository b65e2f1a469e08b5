"""TypeScript projects: how bakery reports their errors, and the SDK's own tests under Node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bakery.errors import BakeryError
from bakery.languages import javascript
from bakery.project import Manifest, Project, open_project
from bakery.report import Report
from bakery.toolchain import node_modules, sdk_root

pytestmark = pytest.mark.skipif(
    bool(javascript.missing()), reason="Node or the packages of bakery/js are missing"
)


def _fault(tmp_path, source: str, name: str = "index.ts") -> BakeryError:
    (tmp_path / name).write_text(source)
    project = Project(tmp_path, Manifest("my-app", "0.1.0", "", {}))
    scratch = tmp_path / "out"
    scratch.mkdir()
    with pytest.raises(BakeryError) as caught:
        javascript.build(project, scratch / "my-app.wasm", debug=False, report=Report(quiet=True))
    return caught.value


def test_a_syntax_error_is_shown_at_its_line(tmp_path):
    fault = _fault(tmp_path, "export async function main() {\n  const x = ;\n}\n")
    assert fault.where == str(tmp_path / "index.ts") + ":2"
    assert "const x = ;" in fault.message


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path):
    fault = _fault(tmp_path, 'import x from "no-such-package";\nexport const main = x;\n')
    assert fault.where == str(tmp_path / "index.ts") + ":1"
    assert fault.hint == "npm install no-such-package"


@pytest.mark.parametrize("sdk", ["inferlet", "@pie-project/inferlet"])
def test_a_name_that_the_sdk_does_not_have(tmp_path, sdk):
    source = f"import {{ Contxt }} from '{sdk}';\nexport const main = () => new Contxt();\n"
    fault = _fault(tmp_path, source)
    assert fault.where == str(tmp_path / "index.ts") + ":1"
    assert "Contxt" in fault.message


@pytest.mark.parametrize("asked", ["npm:@pie-project/inferlet@^0.3.0", "npm:inferlet"])
def test_an_alias_of_the_sdk_is_the_sdk(tmp_path, npm, asked):
    packages = {"pie": asked, "helper": "npm:other@1"}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": packages}))
    source = "import { Contxt } from 'pie';\nexport const main = () => new Contxt();\n"
    fault = _fault(tmp_path, source)
    assert fault.where == str(tmp_path / "index.ts") + ":1"
    assert "Contxt" in fault.message  # the SDK was found, and has no such name
    assert npm == [{"private": True, "dependencies": {"helper": "npm:other@1"}}]


@pytest.mark.parametrize("imports", ["", "import { runtime } from 'inferlet';\n"])
def test_main_must_be_exported(tmp_path, imports):
    fault = _fault(tmp_path, f"{imports}async function main() {{}}\n", "main.ts")
    assert fault.message == "main.ts does not export main"


@pytest.mark.parametrize(
    ("source", "handles"),
    [
        ("export async function main(input) { return input; }", False),
        ("export default async function main(input) { return input; }", False),
        ("export default function (input) { return input; }", False),
        ("export default async (input) => input;", False),
        ("const $run = ({ n = (1 + 2) }) => n;\nexport default $run;", False),
        ("async function run(input) { return input; }\nexport { run as default };", False),
        ("export const main = () => 1;\nexport default { fetch() {} };", False),
        ("export default { async fetch(request) { return new Response('hi'); } };", True),
        ("const app = { fetch() {} };\nexport default app;", True),
        ("class App { fetch() {} }\nexport default new App();", True),
        ("exports.main = async (input) => input;", False),
        (
            "import { Buffer } from 'node:buffer';\nexport const main = () => Buffer.alloc(1);",
            False,
        ),
        ("import { Buffer } from 'buffer';\nexport const main = () => Buffer.alloc(1);", False),
        ("import fs from 'fs';\nexport const main = () => fs.promises.readFile('/data/a');", False),
        ("import * as fs from 'node:fs';\nexport const main = () => fs.existsSync('/a');", False),
        ("const { promises } = require('fs');\nexports.main = () => promises.stat('/a');", False),
    ],
)
def test_which_export_is_the_program(tmp_path, source, handles):
    (tmp_path / "index.js").write_text(source)
    order = {
        "project": str(tmp_path),
        "sdk": str(sdk_root() / "javascript"),
        "sdkNames": ["inferlet"],
        "packages": None,
    }
    bundle = Path(javascript.__file__).parents[3] / "js" / "bundle.mjs"
    script = f"""
        import {{ createRequire }} from 'node:module';
        import {{ bundle }} from {json.dumps(bundle.as_uri())};
        const esbuild = createRequire({json.dumps(str(node_modules() / "x.js"))})('esbuild');
        const {{ handles }} = await bundle(esbuild, {json.dumps(order)});
        console.log(JSON.stringify(handles));
    """
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is handles


def test_modules_of_node_are_not_there(tmp_path):
    fault = _fault(tmp_path, "import net from 'node:net';\nexport const main = () => net;\n")
    assert "node:net" in fault.message
    assert fault.where == str(tmp_path / "index.ts") + ":1"


def test_a_global_of_node_is_named(tmp_path):
    fault = _fault(tmp_path, "const mode = process.argv;\nexport const main = () => mode;\n")
    assert fault.where == str(tmp_path / "index.ts") + ":1"
    assert fault.hint.startswith("process is a name of Node")


@pytest.mark.parametrize(
    "forms",
    [
        {"main": "node.js", "browser": {"./node.js": "./web.js"}},
        {"exports": {"node": "./node.js", "browser": "./web.js", "default": "./node.js"}},
    ],
)
def test_a_packages_form_for_browsers_is_taken(tmp_path, forms):
    package = tmp_path / "node_modules" / "colours"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": "colours", **forms}))
    (package / "node.js").write_text("import 'node:fs';\nexport const red = 1;\n")
    (package / "web.js").write_text("export const red = 2;\n")
    # What does not export main is reported after all packages were found.
    assert _fault(tmp_path, "import 'colours';\n").message == "index.ts does not export main"


def test_the_file_that_the_user_names_is_built(tmp_path):
    (tmp_path / "index.ts").write_text("export const main = () => 1;\n")
    named = tmp_path / "bots" / "other.ts"
    named.parent.mkdir()
    named.write_text("export const other = () => 1;\n")
    with pytest.raises(BakeryError) as caught:
        javascript.build(
            open_project(named), tmp_path / "a.wasm", debug=False, report=Report(quiet=True)
        )
    assert caught.value.message == "other.ts does not export main"


def test_package_json_names_the_entry(tmp_path):
    (tmp_path / "package.json").write_text('{"main": "lib/app.ts"}')
    fault = _fault(tmp_path, "export const main = 1;\n")
    assert "lib/app.ts" in fault.message


@pytest.mark.parametrize(
    ("settings", "entry"),
    [
        ({"source": "./lib/app.ts", "main": "lib/other.js"}, "lib/app.ts"),
        ({"main": "dist/app.js", "module": "lib/app.ts"}, "lib/app.ts"),
        ({"main": "lib"}, None),
        ({"main": "dist/app.js"}, "src/app.ts"),
        ({}, "src/app.ts"),
    ],
)
def test_where_a_package_begins(tmp_path, settings, entry):
    root = tmp_path / "project"
    for name in ("lib/app.ts", "lib/other.js", "src/app.ts", "src/helper.ts"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("export const other = 1;\n")
    (root / "package.json").write_text(json.dumps(settings))
    with pytest.raises(BakeryError) as caught:
        javascript.build(
            open_project(root), tmp_path / "a.wasm", debug=False, report=Report(quiet=True)
        )
    wanted = f"{entry} does not export main" if entry else '"main" in package.json names lib'
    assert caught.value.message.startswith(wanted)


def test_the_only_source_is_the_entry(tmp_path):
    (tmp_path / "vite.config.ts").write_text("")
    fault = _fault(tmp_path, "export const other = 1;\n", "bot.ts")
    assert fault.message == "bot.ts does not export main"


@pytest.mark.parametrize("main", ["index.js", "dist/main.mjs"])
def test_a_compiled_entry_that_is_not_there_stands_for_its_source(tmp_path, main):
    (tmp_path / "package.json").write_text(f'{{"main": "{main}"}}')
    fault = _fault(tmp_path, "async function main() {}\n")
    assert fault.message == "index.ts does not export main"


def test_calling_the_engine_outside_of_main_is_shown_at_its_line(tmp_path):
    source = "import { runtime } from 'inferlet';\n\nconst names = runtime.models();\n"
    fault = _fault(tmp_path, source + "export const main = () => names;\n")
    assert fault.where == str(tmp_path / "index.ts") + ":3"
    assert "main()" in fault.hint


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Stands in for npm: installs a package `helper`. Gives the package.json of each call."""
    asked: list[dict[str, Any]] = []
    others = javascript.run

    def run(cmd, *, cwd, report):
        if cmd[0] != "npm":
            return others(cmd, cwd=cwd, report=report)
        asked.append(json.loads((cwd / "package.json").read_text()))
        helper = cwd / "node_modules" / "helper"
        helper.mkdir(parents=True)
        (helper / "index.js").write_text("export const help = () => 'helped';\n")
        (cwd / "package-lock.json").write_text("{}")
        return subprocess.CompletedProcess(cmd, 0, "", "")

    def cache_dir(name: str) -> Path:
        (tmp_path / "cache" / name).mkdir(parents=True, exist_ok=True)
        return tmp_path / "cache" / name

    monkeypatch.setattr(javascript, "run", run)
    monkeypatch.setattr(javascript, "find", Path)
    monkeypatch.setattr(javascript, "cache_dir", cache_dir)
    return asked


@pytest.mark.parametrize("sdk", ["inferlet", "@pie-project/inferlet"])
@pytest.mark.parametrize("version", ["workspace:*", "file:../sdk", "^0.3.0"])
def test_npm_installs_the_packages_without_the_sdk(tmp_path, npm, sdk, version):
    root = tmp_path / "project"
    root.mkdir()
    packages = {sdk: version, "helper": "^1", "near": "file:../near", "far": "file:/far"}
    settings = {"dependencies": packages, "peerDependencies": {sdk: "*"}, "devDependencies": {}}
    (root / "package.json").write_text(json.dumps(settings))
    fault = _fault(root, "import { help } from 'helper';\nconsole.log(help());\n")
    assert fault.message == "index.ts does not export main"  # so it has found the package
    wanted = {"helper": "^1", "near": f"file:{tmp_path / 'near'}", "far": "file:/far"}
    assert npm == [{"private": True, "dependencies": wanted, "peerDependencies": {}}]
    assert {path.name for path in root.iterdir()} == {"index.ts", "out", "package.json"}
    javascript._install_dependencies(root, Report(quiet=True))
    assert len(npm) == 1  # the packages are kept


def test_npm_takes_the_versions_and_settings_of_the_project(tmp_path, npm):
    (tmp_path / "package.json").write_text('{"dependencies": {"helper": "^1"}}')
    (tmp_path / ".npmrc").write_text("//host/:_authToken=secret")
    first = javascript._install_dependencies(tmp_path, Report(quiet=True))
    (tmp_path / "package-lock.json").write_text('{"lockfileVersion": 3}')
    second = javascript._install_dependencies(tmp_path, Report(quiet=True))
    assert first != second
    assert len(npm) == 2
    assert not list((tmp_path / "cache").rglob(".npmrc"))


def test_packages_that_are_installed_are_not_installed_again(tmp_path, npm):
    (tmp_path / "package.json").write_text('{"dependencies": {"helper": "^1", "inferlet": "*"}}')
    (tmp_path / "node_modules" / "helper").mkdir(parents=True)
    assert javascript._install_dependencies(tmp_path, Report(quiet=True)) is None
    assert not npm


@pytest.mark.parametrize("settings", [["--module", "NodeNext"], ["--moduleResolution", "bundler"]])
def test_a_programs_own_tsc_finds_the_types_of_the_sdk(tmp_path, settings):
    (tmp_path / "tsconfig.json").write_text("{}")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    javascript._link_types(tmp_path, sdk_root() / "javascript", Report(quiet=True))
    program = tmp_path / "index.ts"
    program.write_text(
        "import { Sampler } from 'inferlet';\nimport fs from 'node:fs';\n"
        "export const main = () => Sampler.argmax();\n"
        "export const there: boolean = fs.existsSync('/data');\n"
        "export const wrong: number = Sampler.argmax();\n"
    )
    command = [node_modules() / ".bin" / "tsc", "--noEmit", "--strict", "--lib", "ESNext,DOM"]
    command += ["--ignoreConfig", *settings, program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (only,) = done.stdout.strip().splitlines()
    assert "index.ts(5,14)" in only


def test_the_types_of_the_sdk_agree_with_those_of_node(tmp_path):
    """A program that imports modules of Node mostly has `@types/node`, which declares them too."""
    javascript_sdk = sdk_root() / "javascript"
    (tmp_path / "tsconfig.json").write_text("{}")
    javascript._link_types(tmp_path, javascript_sdk, Report(quiet=True))
    types = tmp_path / "node_modules" / "@types" / "node"
    types.mkdir(parents=True)
    (types / "index.d.ts").write_text(
        "declare module 'node:fs' { export function existsSync(path: string): boolean; }\n"
        "declare module 'fs' { export * from 'node:fs'; }\n"
        "declare module 'node:path' { const path: { sep: string }; export = path; }\n"
        "declare module 'path' { import path = require('node:path'); export = path; }\n"
    )
    program = tmp_path / "index.ts"
    program.write_text(
        "import { Sampler } from 'inferlet';\nimport { existsSync } from 'fs';\n"
        "import { sep } from 'node:path';\nimport { readFile } from 'node:fs/promises';\n"
        "export const main = () => [Sampler.argmax(), existsSync(sep), readFile];\n"
    )
    command = [node_modules() / ".bin" / "tsc", "--noEmit", "--strict", "--lib", "ESNext,DOM"]
    command += ["--ignoreConfig", "--types", "node", "--moduleResolution", "bundler", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


_SPLICES = """
import { keeping } from './splice.mjs';
let made = 0;
const splice = keeping((engine, features) => {
  made += 1;
  return { wasm: engine, jsBindings: 'x', imports: [], exports: features };
}, process.argv[1] + '/kept');
const engine = new Uint8Array([1, 2, 3]);
const ask = (features) => splice(engine, features, undefined, process.argv[1], 'world', false);
ask(['a']);
const again = ask(['a']);
ask(['b']);
console.log(made, [...again.wasm].join(), again.jsBindings, again.exports.join());
"""


def test_spliced_engines_are_kept(tmp_path):
    """One splice for each set of arguments; another WIT, or a damaged file, is spliced again."""

    def splices() -> str:
        command = ["node", "--input-type=module", "-e", _SPLICES, str(tmp_path)]
        folder = javascript._SCRIPT.parent
        return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()

    (tmp_path / "world.wit").write_text("package a:b;")
    assert splices() == "2 1,2,3 x a"
    assert splices() == "0 1,2,3 x a"
    (tmp_path / "world.wit").write_text("package a:c;")
    assert splices() == "2 1,2,3 x a"
    for file in tmp_path.glob("kept/*/rest.json"):
        file.write_text("{")
    assert splices() == "2 1,2,3 x a"
    assert len(list(tmp_path.glob("kept/*"))) == 4


def test_the_sdk_passes_its_own_tests():
    script = sdk_root() / "javascript" / "test" / "run.mjs"
    done = subprocess.run(
        ["node", script, node_modules(), "--test-reporter=spec"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
