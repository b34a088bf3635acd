//! Suggests what can be written at the cursor: keys, words of a field, names, functions and classes.

use std::path::Path;

use super::analysis::{AnalysedText, Analysis};
use super::cursor::{Cursor, Target, Written};
use super::cursor_hcl::hcl_outline;
use super::definition::declarations;
use super::edits::TextEdit;
use super::find_cursor::cursor_at;
use super::hover::{NAMES, SOURCES, key_text};
use super::positions::{Lines, Position, Range};
use super::protocol::CompletionItem;
use super::workspace::Workspace;
use nomad_csi_model::{AccessMode, AttachmentMode};
use nomad_csi_spec::schema::{Kind, drift_fields};
use nomad_csi_spec::{FUNCTIONS, KeyForm, KnownKey, NameKind, Syntax, known_keys};

/// The kinds of suggestions in the protocol.
mod kind {
    pub(super) const FUNCTION: u8 = 3;
    pub(super) const FIELD: u8 = 5;
    pub(super) const VARIABLE: u8 = 6;
    pub(super) const CLASS: u8 = 7;
    pub(super) const VALUE: u8 = 12;
    pub(super) const KEYWORD: u8 = 14;
}

/// Returns the suggestions at a position.
pub(crate) fn completions(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    position: Position,
) -> Vec<CompletionItem> {
    let Some(text) = analysis.text(path) else {
        return vec![];
    };
    let lines = Lines::new(&text.text, workspace.encoding);
    let offset = lines.offset(position);
    let cursor = cursor_at(&text.text, text.syntax, offset);
    let syntax = match text.syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text.text) => Syntax::Json,
        syntax => syntax,
    };
    let suggest = Suggest { workspace, analysis, text, syntax, cursor: &cursor };
    match &cursor.target {
        Target::Nothing => vec![],
        Target::Key(written) => suggest.keys(lines.range(&written.range), written.is_quoted),
        Target::Value(key, written) => {
            let range = lines.range(&written.range);
            suggest
                .values(key)
                .into_iter()
                .map(|value| suggest.value(value, range, written))
                .collect()
        }
        Target::Expression(key, written) => {
            let range = lines.range(&written.range);
            let mut items = vec![];
            // In a text, only the part in braces is an expression.
            if !written.is_quoted {
                let values = suggest.values(key).into_iter();
                items.extend(values.map(|value| suggest.value(value, range, written)));
            }
            items.extend(suggest.names(range));
            items
        }
    }
}

/// A word that a value can be.
struct Word {
    text: String,
    kind: u8,
    /// True if it is a text, which has quotes in HCL and JSON.
    is_text: bool,
}

struct Suggest<'s> {
    workspace: &'s Workspace,
    analysis: &'s Analysis,
    text: &'s AnalysedText,
    syntax: Syntax,
    cursor: &'s Cursor,
}

impl Suggest<'_> {
    fn keys(&self, range: Range, is_quoted: bool) -> Vec<CompletionItem> {
        let path = self.cursor.path();
        let has_blocks = self.text.survey.has_blocks
            || self.syntax == Syntax::Hcl && hcl_outline(&self.text.text).has_blocks;
        let known = known_keys(&path, has_blocks);
        known.iter().map(|known| self.key(known, range, is_quoted)).collect()
    }

    fn key(&self, known: &KnownKey, range: Range, is_quoted: bool) -> CompletionItem {
        let key = known.key;
        let has_snippets = self.workspace.has_snippets;
        let (new_text, is_snippet) = match (self.syntax, known.form) {
            (Syntax::Hcl, KeyForm::Value) => (format!("{key} = "), false),
            (Syntax::Hcl, KeyForm::Block) if has_snippets => (format!("{key} {{\n  $0\n}}"), true),
            (Syntax::Hcl, KeyForm::LabelledBlock) if has_snippets => {
                (format!("{key} \"$1\" {{\n  $0\n}}"), true)
            }
            (Syntax::Hcl, KeyForm::Block) => (format!("{key} {{"), false),
            (Syntax::Hcl, KeyForm::LabelledBlock) => (format!("{key} \""), false),
            (Syntax::Yaml, KeyForm::Value) => (format!("{key}: "), false),
            (Syntax::Yaml, KeyForm::Block | KeyForm::LabelledBlock) => (format!("{key}:"), false),
            (Syntax::Json, _) if is_quoted => (key.to_owned(), false),
            (Syntax::Json, _) => (format!("\"{key}\": "), false),
        };
        CompletionItem {
            label: key.to_owned(),
            kind: kind::FIELD,
            detail: known.field.map(|field| field.kind.to_string()).unwrap_or_default(),
            documentation: key_text(known),
            text_edit: TextEdit { range, new_text },
            insert_text_format: if is_snippet { 2 } else { 1 },
        }
    }

    /// Returns the words that a value of a key can be.
    fn values(&self, key: &str) -> Vec<Word> {
        let path = self.cursor.path();
        let text = |text: &str| Word { text: text.to_owned(), kind: kind::VALUE, is_text: true };
        let boolean = || {
            let word =
                |text: &str| Word { text: text.to_owned(), kind: kind::KEYWORD, is_text: false };
            vec![word("true"), word("false")]
        };
        let inner = path.last().copied().unwrap_or_default();
        let known = known_keys(&path, self.text.survey.has_blocks);
        let field = known.iter().find(|known| known.key == key).and_then(|known| known.field);
        match (&path[..], key) {
            (_, "access_mode") if inner == "capability" => {
                AccessMode::ALL.iter().map(|mode| text(mode.as_str())).collect()
            }
            (_, "attachment_mode") if inner == "capability" => {
                AttachmentMode::ALL.iter().map(|mode| text(mode.as_str())).collect()
            }
            (["variable", _], "type") => {
                let types = ["string", "number", "bool", "list(string)", "map(string)", "any"];
                let word = |name: &str| Word {
                    text: name.to_owned(),
                    kind: kind::KEYWORD,
                    is_text: false,
                };
                types.into_iter().map(word).collect()
            }
            (["variable", _], "sensitive") | (["volume", _], "enabled") => boolean(),
            (["volume", _] | ["defaults"], "class") => self.classes(),
            (_, "ignore") if field.is_some() => drift_fields().map(|name| text(&name)).collect(),
            (_, "type") if field.is_some() => vec![text("csi")],
            (_, _) if field.is_some_and(|field| field.kind == Kind::Boolean) => boolean(),
            (_, _) => vec![],
        }
    }

    fn classes(&self) -> Vec<Word> {
        let names = self.declared(NameKind::Class).into_iter();
        names.map(|text| Word { text, kind: kind::CLASS, is_text: true }).collect()
    }

    /// Returns the names of a kind that any text declares, once each.
    fn declared(&self, kind: NameKind) -> Vec<String> {
        let all = self.analysis.texts.iter().flat_map(declarations);
        let mut names: Vec<String> =
            all.filter(|(of, ..)| *of == kind).map(|(_, name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn value(&self, word: Word, range: Range, written: &Written) -> CompletionItem {
        let has_quotes = word.is_text && !written.is_quoted && self.syntax != Syntax::Yaml;
        let new_text = match has_quotes {
            true => format!("\"{}\"", word.text),
            false => word.text.clone(),
        };
        CompletionItem {
            label: word.text,
            kind: word.kind,
            detail: String::new(),
            documentation: String::new(),
            text_edit: TextEdit { range, new_text },
            insert_text_format: 1,
        }
    }

    /// Returns the names and functions that an expression can have.
    fn names(&self, range: Range) -> Vec<CompletionItem> {
        let item =
            |label: String, new_text: String, kind: u8, detail: String, doc: &str| CompletionItem {
                label,
                kind,
                detail,
                documentation: doc.to_owned(),
                text_edit: TextEdit { range, new_text },
                insert_text_format: 1,
            };
        let mut items = vec![];
        for (kind, start) in [(NameKind::Variable, "var"), (NameKind::Local, "local")] {
            for name in self.declared(kind) {
                let label = format!("{start}.{name}");
                let doc = self.description(kind, &name);
                items.push(item(label.clone(), label, kind::VARIABLE, String::new(), &doc));
            }
        }
        for (name, doc) in NAMES {
            items.push(item(name.to_owned(), name.to_owned(), kind::VARIABLE, String::new(), doc));
        }
        for function in FUNCTIONS {
            let name = function.name;
            let detail = format!("({}) → {}", function.parameters, function.result);
            let new_text = format!("{name}(");
            items.push(item(name.to_owned(), new_text, kind::FUNCTION, detail, function.summary));
        }
        if self.cursor.path.iter().any(|key| key == "secrets") {
            for (name, doc) in SOURCES {
                let new_text = format!("{name}(\"");
                items.push(item(name.to_owned(), new_text, kind::FUNCTION, String::new(), doc));
            }
        }
        items
    }

    fn description(&self, kind: NameKind, name: &str) -> String {
        let mut all = self.analysis.texts.iter().flat_map(|text| &text.survey.declared);
        let found = all.find(|one| one.kind == kind && one.name == name);
        found.and_then(|one| one.description.clone()).unwrap_or_default()
    }
}
