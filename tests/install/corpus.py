"""Config folders as people have them, made up: each case is a harness, the files in the home, and which of
them can't be written to, with the reason.

They are bytes in one table rather than files, because byte order marks, line ends and missing final
newlines are what they are about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any


@dataclass(frozen=True)
class Case:
    """``files`` by their names from the home; ``left`` those that stay as they are, and why."""

    harness: str
    files: Mapping[str, str]
    left: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None

    def put(self, home: Path) -> None:
        """Write the files into ``home``; a name that ends in a slash is a folder."""
        for name, content in self.files.items():
            path = home / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8", "surrogateescape"))
            path.chmod(0o644)
        if self.prepare:
            self.prepare(home)


def block(text: str) -> str:
    return dedent(text).lstrip("\n")


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def spread(value: Any, indent: int | str = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def group(command: str, **more: Any) -> dict[str, Any]:
    return {**more, "hooks": [{"type": "command", "command": command}]}


NOTIFIER = {
    "Notification": [group("notify-send Claude 'needs you'", matcher="")],
    "Stop": [group("paplay done.oga")],
}
PERSONAL = {
    "permissions": {
        "allow": ["Bash(git diff:*)", "Bash(npm run test:*)", "WebFetch(domain:docs.python.org)"]
    },
    "env": {"EDITOR": "vim", "LANG": "de_DE.UTF-8"},
    "model": "opus",
    "statusLine": {"type": "command", "command": "~/.claude/line.sh"},
}


def linked(name: str, target: str) -> Callable[[Path], None]:
    """The file moves into the person's dotfiles, and a link takes its place."""

    def prepare(home: Path) -> None:
        real = home / target
        real.parent.mkdir(parents=True, exist_ok=True)
        (home / name).rename(real)
        (home / name).symlink_to(real)

    return prepare


def hard_linked(name: str) -> Callable[[Path], None]:
    return lambda home: (home / "backup").hardlink_to(home / name)


def mode(name: str, bits: int) -> Callable[[Path], None]:
    return lambda home: (home / name).chmod(bits)


CLAUDE = ".claude/settings.json"
HOOKS = ".codex/hooks.json"
CODEX = ".codex/config.toml"
GEMINI = ".gemini/settings.json"
GRAVITY = ".gemini/config/hooks.json"
DEVIN = ".config/devin/config.json"
CURSOR = ".cursor/hooks.json"
COPILOT = ".copilot/hooks/sessionpipe.json"
DROID = ".factory/settings.json"
DROID_HOOKS = ".factory/hooks.json"
TAKEN = 'its "notify" is taken'

CORPUS: dict[str, Case] = {
    # Claude Code
    "claude: an empty folder": Case("claude-code", {".claude/": ""}),
    "claude: an empty file": Case("claude-code", {CLAUDE: ""}),
    "claude: white space": Case("claude-code", {CLAUDE: " \n\t\r\n"}),
    "claude: a person's settings": Case("claude-code", {CLAUDE: spread(PERSONAL)}),
    "claude: four spaces, no final newline": Case("claude-code", {CLAUDE: json.dumps(PERSONAL, indent=4)}),
    "claude: tabs and CRLF": Case("claude-code", {CLAUDE: crlf(spread(PERSONAL, "\t"))}),
    "claude: on one line": Case("claude-code", {CLAUDE: json.dumps(PERSONAL, separators=(",", ":"))}),
    "claude: another tool's hooks": Case("claude-code", {CLAUDE: spread({"hooks": NOTIFIER, **PERSONAL})}),
    "claude: hooks switched off": Case(
        "claude-code", {CLAUDE: spread({"hooks": NOTIFIER, "disableAllHooks": True})}
    ),
    "claude: a byte order mark": Case("claude-code", {CLAUDE: "\ufeff" + spread(PERSONAL)}),
    "claude: a long allow list": Case(
        "claude-code",
        {CLAUDE: spread({"permissions": {"allow": [f"Bash(tool-{n}:*)" for n in range(2000)]}})},
    ),
    "claude: two accounts": Case(
        "claude-code",
        {CLAUDE: spread(PERSONAL), ".claude-work/settings.json": "{}", ".claude-work/projects/": ""},
    ),
    "claude: a link into dotfiles": Case(
        "claude-code", {CLAUDE: spread(PERSONAL)}, prepare=linked(CLAUDE, "dotfiles/claude/settings.json")
    ),
    "claude: two names of one file": Case(
        "claude-code", {CLAUDE: spread(PERSONAL)}, prepare=hard_linked(CLAUDE)
    ),
    "claude: private": Case("claude-code", {CLAUDE: spread(PERSONAL)}, prepare=mode(CLAUDE, 0o600)),
    "claude: read-only": Case(
        "claude-code", {CLAUDE: spread(PERSONAL)}, {CLAUDE: "it is read-only"}, mode(CLAUDE, 0o444)
    ),
    "claude: comments": Case(
        "claude-code",
        {CLAUDE: '{\n  // the big one\n  "model": "opus"\n}\n'},
        {CLAUDE: "not plain JSON: a comment at line 2"},
    ),
    "claude: a comma too many": Case(
        "claude-code",
        {CLAUDE: '{\n  "model": "opus",\n}\n'},
        {CLAUDE: "not plain JSON: a trailing comma at line 2"},
    ),
    "claude: hooks given twice": Case(
        "claude-code",
        {CLAUDE: '{"hooks": {},\n "hooks": {}}'},
        {CLAUDE: "not plain JSON: a key given twice at line 2"},
    ),
    "claude: cut off": Case(
        "claude-code", {CLAUDE: '{"model": "op'}, {CLAUDE: "not plain JSON: a broken string at line 1"}
    ),
    "claude: Latin-1": Case(
        "claude-code", {CLAUDE: '{"name": "Zo\udceb"}'}, {CLAUDE: "a byte that is no UTF-8 at line 1"}
    ),
    # Codex
    "codex: an empty folder": Case("codex", {".codex/": ""}),
    "codex: another tool's hooks": Case("codex", {HOOKS: spread({"hooks": {"Stop": [group("say done")]}})}),
    "codex: a description beside": Case("codex", {HOOKS: '{"description": "mine", "hooks": {}}\n'}),
    "codex: a person's settings": Case(
        "codex",
        {
            CODEX: block(
                """
                #:schema https://example.com/config-schema.json
                model = "gpt-5" # the usual
                approval_policy = "on-request"
                developer_instructions = '''
                [not.a.table]
                notify = "nothing"
                '''
                writable_roots = [
                    "/srv/[a]", # one
                    "/srv/b",
                ]

                # Servers
                [mcp_servers.docs]
                command = "docs-server"
                args = ["--notify", "[x]"]

                [projects."/home/dev/src/app"]
                trust_level = "trusted"
                """
            )
        },
    ),
    "codex: tables only": Case(
        "codex",
        {CODEX: block('# what I trust\n\n# the app\n[projects."/srv/app"]\ntrust_level = "trusted"\n')},
    ),
    "codex: comments only, no final newline": Case("codex", {CODEX: "# nothing yet"}),
    "codex: keys only, no final newline": Case(
        "codex", {CODEX: 'model = "gpt-5"\napproval_policy = "never"'}
    ),
    "codex: CRLF": Case("codex", {CODEX: crlf('model = "gpt-5"\n\n[tui]\ntheme = "dark"\n')}),
    "codex: a table's own notify": Case("codex", {CODEX: '[tui]\nnotifications = true\nnotify = "bell"\n'}),
    "codex: quotes in strings": Case(
        "codex", {CODEX: 'a = """x\\"\\"\\"[y]"""""\nb = \'it"s # no comment\'\n[t]\nc = "\\"#"\n'}
    ),
    "codex: a link": Case(
        "codex", {CODEX: 'model = "gpt-5"\n'}, prepare=linked(CODEX, "dotfiles/codex.toml")
    ),
    "codex: a notify of another program": Case(
        "codex",
        {CODEX: 'notify = ["python3", "/home/dev/bell.py"]\n\n[tui]\ntheme = "dark"\n'},
        {CODEX: TAKEN},
    ),
    "codex: a quoted notify": Case("codex", {CODEX: '"notify" = ["bell"]\n'}, {CODEX: TAKEN}),
    "codex: no TOML": Case(
        "codex",
        {CODEX: 'model = "gpt-5"\nmodel = "o3"\n'},
        {CODEX: "not valid TOML: something unexpected at"},
    ),
    "codex: a byte order mark": Case(
        "codex", {CODEX: '\ufeffmodel = "gpt-5"\n'}, {CODEX: "not valid TOML: something unexpected at line 1"}
    ),
    # Gemini CLI
    "gemini: a person's settings": Case(
        "gemini-cli",
        {
            GEMINI: spread(
                {
                    "security": {"auth": {"selectedType": "oauth-personal"}},
                    "ui": {"theme": "Default"},
                    "mcpServers": {"docs": {"command": "docs-server"}},
                }
            ),
            ".gemini/GEMINI.md": "# Rules\n",
        },
    ),
    "gemini: comments": Case(
        "gemini-cli",
        {
            GEMINI: block(
                """
                {
                  // how it looks
                  "ui": { "theme": "GitHub" }, /* light */
                  "hooks": {
                    // rings the bell
                    "AfterAgent": [
                      { "hooks": [{ "type": "command", "name": "bell", "command": "tput bel" }] } // keep
                    ]
                    // more to come
                  }
                  // "model": { "name": "pro" }
                }
                """
            )
        },
    ),
    "gemini: an empty object with a comment": Case("gemini-cli", {GEMINI: "{\n  // later\n}\n"}),
    "gemini: hooks of another shape": Case(
        "gemini-cli", {GEMINI: '{\n  "hooks": []\n}\n'}, {GEMINI: '"hooks" is no object at line 2'}
    ),
    # Antigravity
    "antigravity: its folder alone": Case("antigravity", {".gemini/antigravity-cli/": ""}),
    "antigravity: another group": Case(
        "antigravity",
        {
            GRAVITY: spread(
                {
                    "guard": {
                        "enabled": True,
                        "PreToolUse": [group("guard.sh", matcher="*")],
                        "Stop": [{"type": "command", "command": "bell.sh", "timeout": 3}],
                    }
                }
            )
        },
    ),
    "antigravity: comments": Case(
        "antigravity",
        {GRAVITY: '{\n  "guard": {} // mine\n}\n'},
        {GRAVITY: "not plain JSON: a comment at line 2"},
    ),
    # Devin
    "devin: comments": Case(
        "devin",
        {
            DEVIN: block(
                """
                {
                  "version": 1,
                  "devin": { "org_id": "org-made-up" },
                  // ask before this
                  "permissions": { "allow": ["Exec(ls)"], "deny": [] } // nothing yet
                }
                """
            )
        },
    ),
    "devin: hooks, a comment in each list": Case(
        "devin",
        {
            DEVIN: block(
                """
                {
                  "hooks": {
                    "Stop": [
                      // the bell
                      { "hooks": [{ "type": "command", "command": "tput bel" }] },
                      /* { "hooks": [] } */
                    ].
                  }
                }
                """
            )
            .replace("],\n      /*", "]\n      /*")
            .replace("].", "]")
            .replace("] },\n", "] }\n")
        },
    ),
    "devin: a comma too many": Case(
        "devin", {DEVIN: '{\n  "version": 1,\n}\n'}, {DEVIN: "not plain JSON: a trailing comma at line 2"}
    ),
    # Cursor
    "cursor: an empty folder": Case("cursor", {".cursor/": ""}),
    "cursor: another tool's hooks": Case(
        "cursor",
        {
            CURSOR: spread(
                {
                    "version": 1,
                    "hooks": {
                        "beforeShellExecution": [{"command": "./audit.sh"}],
                        "stop": [{"command": "say done"}],
                    },
                }
            )
        },
    ),
    "cursor: without its version": Case(
        "cursor", {CURSOR: '{\n\t"hooks": {\n\t\t"stop": [{"command": "say done"}]\n\t}\n}'}
    ),
    "cursor: an event that is no list": Case(
        "cursor", {CURSOR: '{"version": 1, "hooks": {"stop": {}}}'}, {CURSOR: '"stop" is no array at line 1'}
    ),
    # Copilot CLI
    "copilot: another tool's file beside": Case(
        "copilot-cli",
        {
            ".copilot/config.json": '{"trustedFolders": ["/srv/app"]}\n',
            ".copilot/hooks/audit.json": '{"version":1,"hooks":{"sessionStart":[]}}\n',
        },
    ),
    "copilot: somebody's hooks in a file of our name": Case(
        "copilot-cli",
        {COPILOT: '{"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": "say done"}]}}'},
    ),
    # Droid
    "droid: settings": Case(
        "droid", {DROID: spread({"model": "claude-opus", "autonomyLevel": "auto-low", "hooks": NOTIFIER})}
    ),
    "droid: a hooks file of its own form": Case(
        "droid", {DROID_HOOKS: spread({"Stop": [group("say done")]}), DROID: '{"model": "gpt-5"}\n'}
    ),
    "droid: a hooks file in the old form": Case("droid", {DROID_HOOKS: spread({"hooks": NOTIFIER})}),
    "droid: an empty hooks file": Case("droid", {DROID_HOOKS: "{}"}),
    # Kiro
    "kiro: agents, one with hooks, one without": Case(
        "kiro",
        {
            ".kiro/agents/kiro_default.json": spread({"name": "kiro_default", "tools": ["*"], "hooks": {}}),
            ".kiro/agents/reviewer.json": json.dumps(
                {
                    "name": "reviewer",
                    "tools": ["fs_read"],
                    "hooks": {
                        "stop": [{"command": "say done"}],
                        "preToolUse": [{"matcher": "*", "command": "x"}],
                    },
                },
                indent=4,
            ),
            ".kiro/settings/cli.json": "{}\n",
        },
    ),
    "kiro: another tool's file beside": Case(
        "kiro", {".kiro/hooks/lint.json": spread({"version": "v1", "hooks": []})}
    ),
    "kiro: an agent's file that is none": Case(
        "kiro",
        {".kiro/agents/broken.json": "{", ".kiro/agents/fine.json": "{}"},
        {".kiro/agents/broken.json": "not plain JSON: the end of the file at line 1"},
    ),
    # OpenCode, goose, Pi
    "opencode: settings and another plugin": Case(
        "opencode",
        {
            ".config/opencode/opencode.jsonc": '{\n  // mine\n  "model": "x/y",\n}\n',
            ".config/opencode/plugin/bell.ts": "export const Bell = async () => ({});\n",
        },
    ),
    "opencode: somebody's plugin of our name": Case(
        "opencode",
        {".config/opencode/plugin/sessionpipe.js": "export const Mine = async () => ({});\n"},
        {".config/opencode/plugin/sessionpipe.js": "another file has the name of ours"},
    ),
    "goose: settings and another plugin": Case(
        "goose",
        {
            ".config/goose/config.yaml": "GOOSE_MODEL: made-up\n",
            ".agents/plugins/other/plugin.json": '{"name": "other"}\n',
        },
    ),
    "pi: another extension": Case(
        "pi", {".pi/agent/extensions/bell.ts": "export default () => {};\n", ".pi/agent/settings.json": "{}"}
    ),
}
