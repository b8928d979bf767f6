//! Tests `xdrgen lsp` with headless Neovim and its own client (`vim.lsp`).

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The script that Neovim runs. It writes the server's answers to the file `seen.json`.
const SCRIPT: &str = r#"
local command, folder, name = vim.env.XDRGEN, vim.env.FOLDER, vim.env.DOCUMENT
vim.cmd('edit ' .. folder .. '/' .. name)
local seen = { name = name }
local client = vim.lsp.start_client({ cmd = { command, 'lsp' }, root_dir = folder, name = 'xdrgen' })
vim.lsp.buf_attach_client(0, client)

local function diagnostics(count)
  local reached = vim.wait(20000, function() return #vim.diagnostic.get(0) == count end, 20)
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { line = each.lnum, column = each.col, code = each.user_data.lsp.code })
  end
  return { reached = reached, found = found }
end

local function request(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 20000) or {}
  for _, answer in pairs(answers) do return answer.result end
end

local function at(pattern)
  vim.fn.cursor(1, 1)
  vim.fn.search(pattern)
  return vim.lsp.util.make_position_params(0, 'utf-16')
end

seen.first = diagnostics(1)
local hover = request('textDocument/hover', at([[a_point point]]))
seen.hover = hover and hover.contents.value
local definition = request('textDocument/definition', at([[a_point point]]))
vim.lsp.util.jump_to_location(definition, 'utf-16')
seen.definition = vim.fn.line('.') - 1

local line = at([[int y]]).position.line
local params = {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = { start = { line = line, character = 0 }, ['end'] = { line = line, character = 40 } },
  context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics(0) },
}
local actions = request('textDocument/codeAction', params)
seen.action = actions and actions[1] and actions[1].title
vim.lsp.util.apply_workspace_edit(actions[1].edit, 'utf-16')
seen.fixed = diagnostics(0)

-- A letter is typed, and removed again.
at([[a_point point]])
vim.cmd([[normal! iz]])
seen.broken = diagnostics(1)
vim.cmd([[normal! x]])
seen.undone = diagnostics(0)

if name:match('%.x$') then
  vim.lsp.buf.formatting_sync(nil, 20000)
  seen.formatted = vim.api.nvim_buf_get_lines(0, 0, -1, false)
end
vim.lsp.stop_client(client)
seen.stopped = vim.wait(20000, function() return vim.lsp.get_client_by_id(client) == nil end, 20)
local file = io.open(folder .. '/' .. name .. '.seen.json', 'w')
file:write(vim.fn.json_encode(seen))
file:close()
vim.cmd('qall!')
"#;

/// A document with one defect, whose fix is a semicolon after `int y`.
fn document(name: &str) -> String {
    let xdr = "struct a_point {\n        int x;\n        int y\n};\ntypedef opaque a_name<8>;\n\
               struct a_line {\n        a_name name;\n        a_point point;\n};\n";
    if name.ends_with(".x") {
        return xdr.to_owned();
    }
    let marked: Vec<String> = xdr.lines().map(|line| format!("   /// {line}")).collect();
    let (before, after) = match name.rsplit_once('.') {
        Some((_, "md")) => ("# Points\n\n~~~ xdr\n", "~~~\n"),
        Some((_, "xml")) => (
            "<section><sourcecode><![CDATA[\n",
            "]]></sourcecode></section>\n",
        ),
        _ => ("1.  Points\n\n", "\n"),
    };
    format!("{before}{}\n{after}", marked.join("\n"))
}

/// Runs Neovim on a document, and returns the server's answers.
fn seen(folder: &Path, name: &str) -> Value {
    std::fs::write(folder.join(name), document(name)).expect("a document");
    std::fs::write(folder.join("script.lua"), SCRIPT).expect("a script");
    let mut child = Command::new("nvim")
        .args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "-c"])
        .arg(format!("luafile {}", folder.join("script.lua").display()))
        // The editor also ends if the script fails.
        .args(["-c", "cquit"])
        .env("XDRGEN", env!("CARGO_BIN_EXE_xdrgen"))
        .env("FOLDER", folder)
        .env("DOCUMENT", name)
        .env("HOME", folder)
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("nvim runs");
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(120) {
            child.kill().expect("it ends");
            panic!("{name}: nvim does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{name}: {status}");
    let seen = std::fs::read_to_string(folder.join(format!("{name}.seen.json")));
    serde_json::from_str(&seen.expect("what was seen")).expect("JSON")
}

/// Records that the test is skipped: the summary of `.ci/run` counts these lines.
fn skipped() {
    eprintln!("skipped: there is no nvim");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let notes = std::fs::OpenOptions::new().append(true).open(notes);
        writeln!(notes.expect("the notes"), "neovim: there is no nvim").expect("it is written");
    }
}

#[test]
fn serves_neovim() {
    let version = Command::new("nvim").arg("--version").output();
    if !version.is_ok_and(|version| version.status.success()) {
        return skipped();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    for name in ["a.x", "draft-a-00.txt", "draft-a-00.md", "draft-a-00.xml"] {
        let seen = seen(&folder, name);
        let text = document(name);
        let line = |pattern: &str| {
            let found = text.lines().position(|line| line.contains(pattern));
            found.map(|line| u64::try_from(line).expect("small"))
        };
        let first = &seen["first"]["found"][0];
        assert_eq!(first["code"], "syntax", "{name}: {seen}");
        assert_eq!(first["line"].as_u64(), line("int y"), "{name}: {seen}");
        let hover = seen["hover"].as_str().expect("a hover text");
        assert!(
            hover.starts_with("```xdr\nstruct a_point {\n"),
            "{name}: {hover}"
        );
        assert_eq!(
            seen["definition"].as_u64(),
            line("struct a_point"),
            "{name}: {seen}"
        );
        assert_eq!(seen["action"], "add `;`", "{name}: {seen}");
        assert_eq!(seen["fixed"]["reached"], true, "{name}: {seen}");
        assert_eq!(seen["broken"]["reached"], true, "{name}: {seen}");
        assert_eq!(seen["undone"]["reached"], true, "{name}: {seen}");
        assert_eq!(seen["stopped"], true, "{name}: {seen}");
        if name == "a.x" {
            let lines = seen["formatted"].as_array().expect("lines");
            assert_eq!(lines[1], "    int x;", "{seen}");
        }
    }
}
