//! Reads YAML 1.2 to a tree. This is the only file that uses the YAML parser.
//!
//! Plain scalars keep their source text, so `rack: 1.10`, `zone: 012` and `no` mean what they show.
//! Anchors, aliases and `<<` are resolved; an aliased value has the position of its anchor. The
//! size of the file bounds the expansion of aliases. Keys are unique texts, and only YAML's own
//! tags are allowed. Each document is a specification.

use std::borrow::Cow;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_yaml::granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, Span as YamlSpan, StrInput, StructureStyle,
    Tag, options,
};

use super::parse_error::ParseError;
use super::tree::{
    Entry, MAX_DEPTH, MAX_VALUES, Node, Object, ScalarKind, SpannedText, Value, ValueBudget,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span};

/// Reads all documents of a file.
pub(super) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Object<'a>>, ParseError> {
    let mut loader = Loader {
        text,
        source,
        parser: Parser::new_from_str_with_options(text, limits()),
        anchors: HashMap::new(),
        expanded_nodes: 0,
        budget: ValueBudget::default(),
        diagnostics,
    };
    let mut documents = vec![];
    while let Some((event, range)) = loader.next()? {
        if matches!(event, Event::DocumentStart(..)) {
            loader.anchors.clear();
        } else if is_node(&event) {
            let node = loader.node(event, range.clone(), 1)?;
            documents.push(match node.value {
                Value::Object(object) => object,
                Value::Null => Object::default(),
                Value::Invalid | Value::Scalar(_) | Value::Reference(_) | Value::Unknown | Value::Expression(_) | Value::List(_) => {
                    let message = "expected a mapping: a specification in YAML consists of `key: value` lines";
                    let several = "put several volumes under `volume:`, each under its name, or separate them with `---`";
                    let first_line = text[range.clone()].lines().next().unwrap_or_default();
                    let range = range.start..range.start + first_line.len();
                    return Err(ParseError::syntax(range, message).help(several));
                }
            });
        }
    }
    Ok(documents)
}

/// Limit of the bytes of a key. The parser keeps as many while it looks for the `:` after it.
const MAX_KEY: usize = 64 << 10;

fn limits() -> Options {
    let mut options = options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        simple_key_max_lookahead: MAX_KEY,
    };
    options.set_emit_comments(false);
    options
}

/// Limit of the nodes from aliases, in addition to the size of the file in bytes.
const MAX_EXTRA_NODES: usize = 10_000;

/// The value of an anchor.
struct AnchoredNode<'a> {
    node: Node<'a>,
    nodes: usize,
    depth: usize,
}

struct Loader<'a, 'd> {
    text: &'a str,
    source: SourceId,
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, AnchoredNode<'a>>,
    expanded_nodes: usize,
    budget: ValueBudget,
    diagnostics: &'d mut Diagnostics,
}

fn is_node(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Alias(_) | Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..)
    )
}

impl<'a> Loader<'a, '_> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Range<usize>)>, ParseError> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, self.range(&span)))),
            Some(Err(error)) => Err(self.problem(&error)),
        }
    }

    fn range(&self, span: &YamlSpan) -> Range<usize> {
        let end = self.text.len();
        let range = span.byte_range().unwrap_or(end..end);
        range.start.min(end)..range.end.clamp(range.start.min(end), end)
    }

    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    fn problem(&self, error: &ScanError) -> ParseError {
        use serde_yaml::granit_parser::ErrorKind;
        let end = self.text.len();
        let at = error.marker().byte_offset().unwrap_or(end).min(end);
        let next = self.text.get(at..).and_then(|rest| rest.chars().next());
        let range = at..at + next.map_or(0, char::len_utf8);
        let problem = |message: &str| ParseError::syntax(range.clone(), message);
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => ParseError::too_deep(range),
            ErrorKind::UnknownAnchor => {
                problem("unknown alias: no anchor of that name precedes it")
                    .help("put text that starts with `*` in quotes")
            }
            ErrorKind::UnexpectedCharacter { .. } => {
                problem("unexpected character").help("put the text in quotes")
            }
            ErrorKind::TabInIndentation
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInPlainScalar
            | ErrorKind::TabNotAllowed => {
                let tab = self.text[at..].find('\t').map_or(range, |tab| at + tab..at + tab + 1);
                ParseError::syntax(tab, "tab in the indentation: YAML requires spaces")
            }
            ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
                problem("unexpected `:` without a key")
                    .help("put text with `: ` in quotes, and indent all keys of a mapping alike")
            }
            ErrorKind::InvalidIndentation
            | ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::BlockSequenceEntryNotAllowed => {
                problem("the indentation does not match the lines above")
            }
            ErrorKind::SimpleKeyExpected => problem("expected a key, `: ` and a value"),
            ErrorKind::UnclosedFlowCollection { open: '{' } => problem("this brace is not closed"),
            ErrorKind::UnclosedFlowCollection { .. } => problem("this bracket is not closed"),
            ErrorKind::UnclosedQuotedScalar => problem("this quote is not closed"),
            ErrorKind::InvalidQuotedScalarIndent => {
                problem("the quoted text above is not closed, or this line of it is not indented")
            }
            ErrorKind::InvalidTrailingSingleQuotedScalar
            | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
                problem("unexpected text after the closing quote")
                    .help("put the whole text in quotes")
            }
            ErrorKind::UnknownQuotedScalarEscape => {
                problem("unknown escape sequence").help("use single quotes for a literal backslash")
            }
            _ => ParseError::syntax(range, format!("invalid YAML: {}", error.info())),
        }
    }

    fn ended(&self) -> ParseError {
        let end = self.text.len();
        ParseError::syntax(end..end, "the file ends within a value")
    }

    fn count(&mut self, values: usize, range: &Range<usize>) -> Result<(), ParseError> {
        let counted = self.budget.take(values);
        counted.ok_or_else(|| ParseError::too_many_values(range.start..range.start))
    }

    /// Reads the node that starts with an event, at this depth.
    fn node(
        &mut self,
        event: Event<'a>,
        range: Range<usize>,
        depth: usize,
    ) -> Result<Node<'a>, ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError::too_deep(range));
        }
        self.count(1, &range)?;
        let (anchor, node) = match event {
            Event::Alias(id) => return self.alias(id, range, depth),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, self.scalar(text, style, tag.as_deref(), range.clone())?)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.structure_tag(tag.as_deref(), &range)?;
                (anchor, self.sequence(range.clone(), depth)?)
            }
            Event::MappingStart(style, anchor, tag) => {
                self.structure_tag(tag.as_deref(), &range)?;
                (anchor, self.mapping(style, range.clone(), depth)?)
            }
            _ => return Err(self.ended()),
        };
        if anchor != 0 {
            let (nodes, depth) = node.size_and_depth();
            self.count(2 * nodes, &range)?;
            let node = node.clone();
            self.anchors.insert(anchor, AnchoredNode { node, nodes, depth });
        }
        Ok(node)
    }

    fn alias(
        &mut self,
        id: usize,
        range: Range<usize>,
        depth: usize,
    ) -> Result<Node<'a>, ParseError> {
        let Some(anchor) = self.anchors.get(&id) else {
            return Err(ParseError::syntax(range, "this alias refers to a value that contains it"));
        };
        if depth + anchor.depth > MAX_DEPTH + 1 {
            return Err(ParseError::too_deep(range));
        }
        self.expanded_nodes += anchor.nodes;
        if self.expanded_nodes > MAX_VALUES.min(self.text.len() + MAX_EXTRA_NODES) {
            let message = "the aliases of this file expand to too much data";
            return Err(ParseError {
                code: Code::SpecTooManyAliases,
                ..ParseError::syntax(range, message)
            });
        }
        let (nodes, node) = (anchor.nodes, anchor.node.clone());
        self.count(2 * nodes, &range)?;
        Ok(node)
    }

    fn structure_tag(&self, tag: Option<&Tag>, range: &Range<usize>) -> Result<(), ParseError> {
        match tag {
            Some(tag) if !matches!(tag.core_suffix(), Some("map" | "seq")) => {
                Err(unknown_tag(range.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn scalar(
        &self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        range: Range<usize>,
    ) -> Result<Node<'a>, ParseError> {
        let as_text = match tag {
            None => style != ScalarStyle::Plain,
            Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => true,
            Some(tag) => match tag.core_suffix() {
                Some("str") => true,
                Some("int" | "float" | "bool" | "null") => false,
                _ => return Err(unknown_tag(range)),
            },
        };
        let span = self.span(range);
        Ok(match plain_kind(&text) {
            _ if as_text => Node::text(text, span),
            None => Node { value: Value::Null, span },
            Some(kind) => Node::scalar(kind, text, span),
        })
    }

    fn sequence(&mut self, range: Range<usize>, depth: usize) -> Result<Node<'a>, ParseError> {
        let mut items = vec![];
        loop {
            let (event, at) = self.next()?.ok_or_else(|| self.ended())?;
            if event == Event::SequenceEnd {
                return Ok(Node {
                    value: Value::List(items),
                    span: self.span(range.start..at.end.max(range.start)),
                });
            }
            if is_node(&event) {
                items.push(self.node(event, at, depth + 1)?);
            }
        }
    }

    fn mapping(
        &mut self,
        style: StructureStyle,
        range: Range<usize>,
        depth: usize,
    ) -> Result<Node<'a>, ParseError> {
        let mut object = Object::default();
        let mut keys: HashMap<Cow<'a, str>, Span> = HashMap::new();
        let mut merged = vec![];
        let mut end = range.end;
        loop {
            let (event, at) = self.next()?.ok_or_else(|| self.ended())?;
            if event == Event::MappingEnd {
                if style == StructureStyle::Flow {
                    end = at.end;
                }
                break;
            }
            if !is_node(&event) {
                continue;
            }
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<");
            let key = self.key(event, at, depth)?;
            let (event, at) = self.next()?.ok_or_else(|| self.ended())?;
            let value = self.node(event, at, depth + 1)?;
            end = end.max(value.span.range().end);
            if is_merge {
                merged.push((key.span, value));
                continue;
            }
            match keys.entry(key.text.clone()) {
                MapEntry::Vacant(place) => {
                    place.insert(key.span);
                    object.push(key, vec![], value);
                }
                MapEntry::Occupied(first) => {
                    self.duplicate_key(&key, *first.get(), &value);
                    object.duplicates.push(Entry { key, labels: vec![], value, list: None });
                }
            }
        }
        for (span, value) in merged {
            merge(&mut object, &mut keys, value).map_err(|()| {
                ParseError::syntax(span.range(), "`<<` requires a mapping or a list of mappings")
            })?;
        }
        let span = self.span(range.start..end.max(range.start));
        Ok(Node::object(object, span))
    }

    fn key(
        &mut self,
        event: Event<'a>,
        at: Range<usize>,
        depth: usize,
    ) -> Result<SpannedText<'a>, ParseError> {
        let node = self.node(event, at.clone(), depth + 1)?;
        let span = node.span;
        match node.value {
            Value::Scalar(scalar) => Ok(SpannedText { text: scalar.text, span }),
            Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => Err(ParseError::syntax(at, "expected text as a key")),
        }
    }

    fn duplicate_key(&mut self, key: &SpannedText<'_>, first: Span, value: &Node<'_>) {
        let diagnostic =
            Diagnostic::error(Code::SpecDuplicateField, format!("duplicate field `{}`", key.text))
                .label(key.span, "repeated here")
                .label(first, "first here");
        self.diagnostics.push(match value.value {
            Value::Object(_) | Value::List(_) => {
                diagnostic.help("write one key with a list to repeat a block")
            }
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_) => diagnostic,
        });
    }
}

/// Adds the keys of `<<` that the mapping does not have; the first of several mappings takes
/// precedence.
fn merge<'a>(
    object: &mut Object<'a>,
    keys: &mut HashMap<Cow<'a, str>, Span>,
    value: Node<'a>,
) -> Result<(), ()> {
    match value.value {
        Value::Object(other) => {
            // A list of objects has several entries of one key.
            let mut added = HashSet::new();
            for entry in other.entries {
                let key = entry.key.text.clone();
                if !keys.contains_key(&key) {
                    added.insert(key.clone());
                    keys.insert(key.clone(), entry.key.span);
                }
                if added.contains(&key) {
                    object.entries.push(entry);
                }
            }
            Ok(())
        }
        Value::List(items) => items.into_iter().try_for_each(|item| merge(object, keys, item)),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_) => Err(()),
    }
}

fn unknown_tag(range: Range<usize>) -> ParseError {
    ParseError::syntax(range, "unknown tag").help("put text that starts with `!` in quotes")
}

/// Returns the kind of a plain scalar in YAML 1.2's core schema; `None` for null.
fn plain_kind(text: &str) -> Option<ScalarKind> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => None,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Some(ScalarKind::Boolean),
        _ if is_number(text) => Some(ScalarKind::Number),
        _ => Some(ScalarKind::Text),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let radix = |prefix, valid: fn(&u8) -> bool| {
        let digits: Option<&str> = text.strip_prefix(prefix);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| valid(&byte)))
    };
    let decimal = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().any(|byte| byte.is_ascii_digit())
        && unsigned.parse::<f64>().is_ok();
    decimal || radix("0x", u8::is_ascii_hexdigit) || radix("0o", |byte| matches!(byte, b'0'..=b'7'))
}
