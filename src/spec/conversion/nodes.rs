//! Makes the content of a parsed document.

use super::comments::{comment_behind, comments_above};
use super::content::{Content, LABELLED, Member, Part};
use super::write_hcl::value;
use crate::expression::place::TextPlace;
use crate::expression::tree::{Expr, ExprKind};
use crate::expression::value::Kind as ValueKind;
use crate::known_keys::known_keys;
use crate::schema::{self, Kind};
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Object, PlacedExpression, ReferenceSource, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};

/// Reads one document.
pub(super) struct ContentReader<'r> {
    pub(super) text: &'r str,
    pub(super) syntax: Syntax,
    /// True if it is a document of the language.
    pub(super) is_language: bool,
}

/// Where a value stands: the keys and labels that lead to it.
type Path<'p> = Vec<&'p str>;

impl ContentReader<'_> {
    /// Returns the content of a document.
    ///
    /// # Errors
    /// If a value has no form in other syntaxes.
    pub(super) fn document(&self, document: &Object<'_>) -> Result<Content, Box<Diagnostic>> {
        let mut members = vec![];
        let mut before = 0;
        let mut notes = vec![];
        for entry in &document.entries {
            let comments = self.comments(entry, &mut before);
            if schema::declares_nothing(&entry.key.text, self.syntax) {
                if entry.key.text == "//" {
                    notes.extend(comments_of(&entry.value));
                }
                continue;
            }
            let path = vec![&*entry.key.text];
            let comments = notes.drain(..).chain(comments).collect();
            match &entry.labels[..] {
                [] => self.add(&mut members, entry, &path, comments)?,
                [label] if self.is_language && LABELLED.contains(&&*entry.key.text) => {
                    let inner = vec![&*entry.key.text, &*label.text];
                    let value = self.node(&entry.value, &inner)?;
                    let member = Member { key: label.text.to_string(), value, comments };
                    add_labelled(&mut members, &entry.key.text, member);
                }
                [label, ..] => {
                    return Err(refused(label.span, "a label that this block cannot have"));
                }
            }
        }
        Ok(Content::Map(members))
    }

    /// Adds an entry to the members of a map. Entries of one key are the items of a list.
    fn add(
        &self,
        members: &mut Vec<Member>,
        entry: &Entry<'_>,
        path: &Path<'_>,
        comments: Vec<String>,
    ) -> Result<(), Box<Diagnostic>> {
        let key = entry.key.text.to_string();
        let value = match path[..] {
            ["variable", _, "type"] => self.type_text(&entry.value),
            _ => self.node(&entry.value, path)?,
        };
        let value = wrapped(&key, value);
        let is_repeated = matches!(value, Content::Map(_));
        if let Some(known) = members.iter_mut().find(|known| known.key == key && is_repeated) {
            known.comments.extend(comments);
            match &mut known.value {
                Content::List(items) => items.push(value),
                Content::Null
                | Content::Unknown
                | Content::Scalar(..)
                | Content::Expression(_)
                | Content::Template(_)
                | Content::Reference(..)
                | Content::Map(_) => {
                    let first = std::mem::replace(&mut known.value, Content::Null);
                    known.value = Content::List(vec![first, value]);
                }
            }
            join_topologies(&key, &mut known.value);
            return Ok(());
        }
        if members.iter().any(|known| known.key == key) {
            return Err(refused(entry.key.span, "a key that is written twice"));
        }
        let is_list = entry.list.is_some() || is_listed(path);
        let value = match is_repeated && is_list {
            true => Content::List(vec![value]),
            false => value,
        };
        members.push(Member { key, value, comments });
        Ok(())
    }

    fn object(&self, object: &Object<'_>, path: &Path<'_>) -> Result<Content, Box<Diagnostic>> {
        let mut members = vec![];
        let mut before = usize::MAX;
        let mut notes = vec![];
        for entry in &object.entries {
            let comments = self.comments(entry, &mut before);
            if self.syntax == Syntax::Json && entry.key.text == "//" && may_have_comment(path) {
                notes.extend(comments_of(&entry.value));
                continue;
            }
            if let Some(label) = entry.labels.first() {
                return Err(refused(label.span, "a label that this block cannot have"));
            }
            let mut inner = path.clone();
            inner.push(&entry.key.text);
            let comments = notes.drain(..).chain(comments).collect();
            self.add(&mut members, entry, &inner, comments)?;
        }
        Ok(Content::Map(members))
    }

    /// Returns the comments of an entry, and moves the end of what is before.
    fn comments(&self, entry: &Entry<'_>, before: &mut usize) -> Vec<String> {
        let start = entry.key.span.range().start;
        let line = self.text.get(..start).and_then(|above| above.rfind('\n'));
        // The first key of a block has the lines behind the line of the block.
        let from = match *before {
            usize::MAX => first_comment(self.text, line.map_or(0, |at| at + 1)),
            before => before,
        };
        let mut comments = comments_above(self.text, self.syntax, from.min(start)..start);
        let end = entry.value.span.range().end;
        let is_here = start <= end;
        if is_here {
            let is_block = entry.value.is_object();
            let behind = comment_behind(self.text, self.syntax, end).filter(|_| !is_block);
            comments.extend(behind);
            *before = end;
        }
        comments
    }

    fn node(&self, node: &Node<'_>, path: &Path<'_>) -> Result<Content, Box<Diagnostic>> {
        if node.is_unknown(self.syntax) {
            return Ok(Content::Unknown);
        }
        let is_secret = path.len() > 1 && path[path.len() - 2] == "secrets";
        if let Some(reference) = node.as_reference().filter(|_| is_secret) {
            let arguments = reference.arguments.iter().map(ToString::to_string).collect();
            return Ok(Content::Reference(reference.source, arguments));
        }
        Ok(match &node.value {
            Value::Null if self.is_language => Content::Null,
            Value::Null => return Err(refused(node.span, "a key without a value")),
            Value::Invalid => return Err(refused(node.span, "a value that cannot be read")),
            Value::Unknown => Content::Unknown,
            Value::Scalar(scalar) => self.scalar(scalar.kind, &scalar.text, path),
            Value::Reference(_) => {
                let written = self.text.get(node.span.range()).unwrap_or_default();
                Content::Expression(written.to_owned())
            }
            Value::Expression(expression) => self.expression(expression, node.span)?,
            Value::List(items) => {
                let items = items.iter().map(|item| self.node(item, path));
                Content::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(object) => {
                let content = self.object(object, path)?;
                let reference = if is_secret { reference_of(&content) } else { None };
                reference.unwrap_or(content)
            }
        })
    }

    /// Returns a scalar. Where a text is expected, it is the text that the syntax reads.
    fn scalar(&self, kind: ScalarKind, text: &str, path: &Path<'_>) -> Content {
        let text = match (self.syntax, kind) {
            (Syntax::Hcl | Syntax::Json, ScalarKind::Boolean) if is_text(path) => match text {
                "true" => "1",
                _ => "0",
            },
            (Syntax::Hcl | Syntax::Json | Syntax::Yaml, _) => text,
        };
        let is_plain_integer = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
        let kind = match kind {
            ScalarKind::Number | ScalarKind::Boolean if is_text(path) && !is_plain_integer => {
                ScalarKind::Text
            }
            ScalarKind::Boolean if is_text(path) => ScalarKind::Text,
            kind => kind,
        };
        Content::Scalar(kind, text.to_owned())
    }

    /// Returns the type of a variable, which is no expression.
    fn type_text(&self, node: &Node<'_>) -> Content {
        let text = match &node.value {
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Text => scalar.text.to_string(),
            Value::Scalar(_)
            | Value::Null
            | Value::Invalid
            | Value::Unknown
            | Value::Reference(_)
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.text.get(node.span.range()).unwrap_or_default().trim().to_owned()
            }
        };
        Content::Scalar(ScalarKind::Text, text)
    }

    fn expression(
        &self,
        expression: &PlacedExpression,
        span: Span,
    ) -> Result<Content, Box<Diagnostic>> {
        let text = match (expression.place, &expression.written) {
            (TextPlace::Exact(span), _) => self.text.get(span.range()),
            (TextPlace::Whole(_), Some(written)) => Some(written.value()),
            (TextPlace::Whole(_), None) => None,
        };
        let Some(text) = text else {
            return Err(refused(span, "an expression of more than 64 KiB"));
        };
        Ok(expression_content(&expression.root, text))
    }
}

/// Returns the reference to a secret that a map with one known key is, such as `{env: NAME}`. With arguments that are
/// evaluated, it is an expression.
fn reference_of(content: &Content) -> Option<Content> {
    let Content::Map(members) = content else {
        return None;
    };
    let [Member { key, value: argument, .. }] = &members[..] else {
        return None;
    };
    let source = ReferenceSource::parse(key)?;
    let arguments = match argument {
        Content::List(items) => &items[..],
        other => std::slice::from_ref(other),
    };
    let texts = arguments.iter().map(|argument| match argument {
        Content::Scalar(ScalarKind::Text, text) => Some(text.clone()),
        Content::Null
        | Content::Unknown
        | Content::Scalar(..)
        | Content::Expression(_)
        | Content::Template(_)
        | Content::Reference(..)
        | Content::List(_)
        | Content::Map(_) => None,
    });
    if arguments.len() != source.argument_count() {
        return None;
    }
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        return Some(Content::Reference(source, texts));
    }
    let written: Vec<String> = arguments.iter().map(|argument| value(argument, 0)).collect();
    Some(Content::Expression(format!("{}({})", source.as_str(), written.join(", "))))
}

/// Returns the content of an expression in its text.
fn expression_content(root: &Expr, text: &str) -> Content {
    let source = |part: &Expr| {
        let range = part.at.start as usize..part.at.end as usize;
        bare(text.get(range).unwrap_or_default()).to_owned()
    };
    match &root.kind {
        ExprKind::Template(parts) => {
            let mut found: Vec<Part> = vec![];
            for part in parts {
                match (text_of(part), found.last_mut()) {
                    (Some(more), Some(Part::Text(text))) => text.push_str(more),
                    (Some(text), _) => found.push(Part::Text(text.to_owned())),
                    (None, _) => found.push(Part::Expression(source(part))),
                }
            }
            match &found[..] {
                [] => Content::Scalar(ScalarKind::Text, String::new()),
                [Part::Text(text)] => Content::Scalar(ScalarKind::Text, text.clone()),
                [Part::Text(_) | Part::Expression(_), ..] => Content::Template(found),
            }
        }
        ExprKind::Constant(value) => match &value.kind {
            ValueKind::Text(text) => Content::Scalar(ScalarKind::Text, text.to_string()),
            ValueKind::Null => Content::Null,
            ValueKind::Bool(holds) => Content::Scalar(ScalarKind::Boolean, holds.to_string()),
            ValueKind::Integer(number) => Content::Scalar(ScalarKind::Number, number.to_string()),
            ValueKind::Float(number) => Content::Scalar(ScalarKind::Number, number.to_string()),
            ValueKind::List(..)
            | ValueKind::Map(..)
            | ValueKind::Secret(_)
            | ValueKind::Unknown => Content::Expression(source(root)),
        },
        ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Variable(_)
        | ExprKind::Local(_)
        | ExprKind::EachKey
        | ExprKind::EachValue
        | ExprKind::CountIndex
        | ExprKind::VolumeName(_)
        | ExprKind::Bound(_)
        | ExprKind::Get(_)
        | ExprKind::Index(_)
        | ExprKind::Condition(_)
        | ExprKind::Not(_)
        | ExprKind::Negate(_)
        | ExprKind::Binary(..)
        | ExprKind::Call(..)
        | ExprKind::Source(..)
        | ExprKind::For(_)
        | ExprKind::Unknown => Content::Expression(source(root)),
    }
}

fn text_of(part: &Expr) -> Option<&str> {
    let ExprKind::Constant(value) = &part.kind else {
        return None;
    };
    match &value.kind {
        ValueKind::Text(text) => Some(text),
        ValueKind::Null
        | ValueKind::Bool(_)
        | ValueKind::Integer(_)
        | ValueKind::Float(_)
        | ValueKind::List(..)
        | ValueKind::Map(..)
        | ValueKind::Secret(_)
        | ValueKind::Unknown => None,
    }
}

/// Returns the source of an expression without the braces of the template that it is the whole of.
fn bare(source: &str) -> &str {
    let source = source.trim();
    let inner = source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(source);
    let braces = inner.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    braces.map_or(source, |inner| inner.trim_matches('~').trim())
}

fn add_labelled(members: &mut Vec<Member>, key: &str, member: Member) {
    if let Some(known) = members.iter_mut().find(|known| known.key == key)
        && let Content::Map(blocks) = &mut known.value
    {
        blocks.push(member);
        return;
    }
    let value = Content::Map(vec![member]);
    members.push(Member { key: key.to_owned(), value, comments: vec![] });
}

/// Writes topologies in the one shape of which Nomad loses nothing: each in a block of its own.
fn wrapped(key: &str, value: Content) -> Content {
    let is_topologies = matches!(key, "required" | "preferred");
    match value {
        Content::Map(members)
            if is_topologies && members.iter().any(|member| member.key == "segments") =>
        {
            let value = Content::List(vec![Content::Map(members)]);
            Content::Map(vec![Member { key: "topology".to_owned(), value, comments: vec![] }])
        }
        other => other,
    }
}

/// Joins several blocks of topologies to one.
fn join_topologies(key: &str, value: &mut Content) {
    let Content::List(blocks) = value else {
        return;
    };
    if !matches!(key, "required" | "preferred") {
        return;
    }
    let mut topologies = vec![];
    for block in blocks.iter() {
        let Content::Map(members) = block else {
            return;
        };
        let [Member { key, value: Content::List(items), .. }] = &members[..] else {
            return;
        };
        if key != "topology" {
            return;
        }
        topologies.extend(items.iter().cloned());
    }
    let member =
        Member { key: "topology".to_owned(), value: Content::List(topologies), comments: vec![] };
    *blocks = vec![Content::Map(vec![member])];
}

/// Returns the path of a field from its volume.
fn in_volume<'p>(path: &'p [&'p str]) -> &'p [&'p str] {
    match path {
        ["volume" | "class", _, inner @ ..] | ["defaults", inner @ ..] => inner,
        other => other,
    }
}

/// Returns whether `//` below a path is a comment in JSON, and not a key of its author.
fn may_have_comment(path: &Path<'_>) -> bool {
    match path[..] {
        ["volume" | "class" | "variable" | "defaults" | "locals"] => true,
        ["variable", _] | ["variable", _, "validation"] => true,
        ["variable" | "locals", ..] => false,
        _ => match in_volume(path) {
            [] => true,
            [.., last] => matches!(
                *last,
                "capability"
                    | "mount_options"
                    | "topology_request"
                    | "required"
                    | "preferred"
                    | "topology"
            ),
        },
    }
}

/// Returns whether a key is that of repeatable blocks.
fn is_listed(path: &Path<'_>) -> bool {
    match in_volume(path) {
        ["topology_request", .., "topology"] => true,
        [.., key] if !matches!(path.first(), Some(&("locals" | "variable"))) => {
            let outer = &path[..path.len() - 1];
            let known = known_keys(outer, true).into_iter().chain(known_keys(outer, false));
            let mut fields = known.filter_map(|known| known.field);
            fields.any(|field| field.key == *key && field.kind == Kind::Blocks)
        }
        _ => false,
    }
}

/// Returns whether a text is expected at a place.
fn is_text(path: &Path<'_>) -> bool {
    if matches!(path.first(), Some(&("locals" | "variable"))) {
        return false;
    }
    let inner = in_volume(path);
    if let [.., "segments", _] | ["parameters" | "context" | "secrets", _] = inner {
        return true;
    }
    let Some((key, _)) = inner.split_last() else {
        return false;
    };
    let outer = &path[..path.len() - 1];
    let known = known_keys(outer, true).into_iter().chain(known_keys(outer, false));
    let mut fields = known.filter_map(|known| known.field);
    fields.any(|field| field.key == *key && matches!(field.kind, Kind::Text | Kind::TextList))
}

/// Returns the start of the comments that end before a line.
fn first_comment(text: &str, line: usize) -> usize {
    let mut start = line;
    while let Some(above) = text.get(..start.saturating_sub(1)) {
        let from = above.rfind('\n').map_or(0, |at| at + 1);
        let written = text.get(from..start).unwrap_or_default().trim();
        let is_comment = written.starts_with('#') || written.starts_with("//");
        if start == 0 || !(is_comment || written.is_empty()) {
            break;
        }
        start = from;
    }
    // `comments_above` leaves out the rest of the line before.
    start.saturating_sub(1)
}

/// Returns the lines of a comment in JSON.
fn comments_of(node: &Node<'_>) -> Vec<String> {
    match &node.value {
        Value::Scalar(scalar) => scalar.text.lines().map(ToOwned::to_owned).collect(),
        Value::List(items) => items.iter().flat_map(comments_of).collect(),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::Object(_) => vec![],
    }
}

pub(super) fn refused(span: Span, what: &str) -> Box<Diagnostic> {
    let problem = Diagnostic::error(Code::CliInvalidValue, format!("cannot convert {what}"));
    Box::new(problem.label(span, "has no form in the other syntax"))
}
