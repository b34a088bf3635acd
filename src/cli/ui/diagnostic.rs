//! A diagnostic as text with the source line underlined, or as JSON.
//!
//! annotate-snippets renders the text in the style of rustc. It receives only the lines around the
//! labels, which keeps many problems in a large file cheap. The source map hides secrets in source
//! lines before they are rendered. No line begins with a text from outside: a message is one line, with symbols for
//! line ends, and the further lines of a note, such as a server's error, begin with `|`.

use annotate_snippets::{
    AnnotationKind, Element, Group, Level, Origin, Patch, Renderer, Snippet, renderer::DecorStyle,
};
use serde_json::{Value, json};

use super::printer::{escape_control_characters, in_one_line};
use nomad_csi_model::diagnostic::{Diagnostic, Label, Severity, SourceMap, Span, TrailStep};

/// Returns the diagnostic with its source lines, with colours and without a final line end.
pub(crate) fn render(diagnostic: &Diagnostic, sources: &SourceMap, columns: usize) -> String {
    let mut primary = level(diagnostic.severity)
        .primary_title(shown_text(&diagnostic.message))
        .id(diagnostic.code.as_str())
        .elements(snippets(diagnostic, sources));
    primary = primary.elements(trail(diagnostic, sources));
    primary = primary.elements(messages(diagnostic));
    let mut groups = vec![primary];
    groups.extend(replacement(diagnostic, sources));
    Renderer::styled().decor_style(DecorStyle::Ascii).term_width(columns).render(&groups)
}

/// Returns the message and the position on one line, for a repeated problem.
pub(crate) fn render_short(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let mut title = shown_text(&diagnostic.message);
    if let Some(label) = diagnostic.labels.first() {
        let place = sources.location(label.span);
        let name = shown_text(sources.name(label.span.source));
        title = format!("{title} ({name}:{}:{})", place.line, place.column);
    }
    let primary = level(diagnostic.severity).primary_title(title).id(diagnostic.code.as_str());
    Renderer::styled().render(&[Group::with_title(primary)])
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    }
}

/// Returns one snippet per group of labels, the one of the first label first.
fn snippets<'a>(diagnostic: &'a Diagnostic, sources: &'a SourceMap) -> Vec<Element<'a>> {
    let fault = diagnostic.labels.first().map(|label| label.span);
    let groups = neighbours(&diagnostic.labels, sources).into_iter();
    groups.flat_map(|labels| snippet(&labels, fault, sources)).collect()
}

/// Groups the labels that are shown in one excerpt: those of one source that are near each other.
fn neighbours<'l>(labels: &'l [Label], sources: &SourceMap) -> Vec<Vec<&'l Label>> {
    let mut groups: Vec<(Span, Vec<&Label>)> = vec![];
    for label in labels {
        let near = groups.iter_mut().find(|(all, _)| {
            let joined = all.to(label.span).range().len();
            let line = |span: Span| sources.location(span).line;
            all.source == label.span.source
                && joined <= SPAN_BYTES
                && (joined <= CONTEXT_BYTES || line(*all) != line(label.span))
        });
        match near {
            Some((all, group)) => {
                *all = all.to(label.span);
                group.push(label);
            }
            None => groups.push((label.span, vec![label])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn snippet<'a>(
    labels: &[&'a Label],
    fault: Option<Span>,
    sources: &'a SourceMap,
) -> Vec<Element<'a>> {
    let spans = || labels.iter().map(|label| label.span);
    let (Some(first), Some(all)) = (spans().next(), spans().reduce(Span::to)) else {
        return vec![];
    };
    let excerpt = SourceExcerpt::around(all, sources);
    let annotations = labels.iter().map(|label| {
        let kind = if Some(label.span) == fault {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        let annotation = kind.span(excerpt.inside(label.span));
        if label.text.is_empty() { annotation } else { annotation.label(shown_text(&label.text)) }
    });
    let snippet = Snippet::source(excerpt.text.clone())
        .line_start(excerpt.first_line)
        .annotations(annotations.collect::<Vec<_>>());
    let name = shown_text(sources.name(first.source));
    if !excerpt.starts_within_line {
        return vec![snippet.path(name).into()];
    }
    let place = sources.location(first);
    let origin = Origin::path(name).line(place.line).char_column(place.column);
    vec![origin.into(), snippet.into()]
}

/// Returns the way from a block to the first place.
fn trail<'a>(diagnostic: &'a Diagnostic, sources: &SourceMap) -> Vec<Element<'a>> {
    let steps = diagnostic.trail.iter();
    let steps = steps.map(|step| Level::NOTE.message(shown_text(&trail_text(step, sources))));
    steps.map(Element::from).collect()
}

/// Returns a step of a trail with its place: `in volume "db[0]", from "count" at volumes.hcl:3:1`.
pub(crate) fn trail_text(step: &TrailStep, sources: &SourceMap) -> String {
    let Some(span) = step.span else {
        return step.text.clone();
    };
    let place = sources.location(span);
    format!("{} {}:{}:{}", step.text, sources.name(span.source), place.line, place.column)
}

fn messages(diagnostic: &Diagnostic) -> impl Iterator<Item = Element<'_>> {
    let notes = diagnostic.notes.iter().map(|text| Level::NOTE.message(shown_lines(text)));
    let help = diagnostic.help.iter().map(|text| Level::HELP.message(shown_text(text)));
    let block = diagnostic.block.iter();
    let block = block.map(|text| Level::HELP.message(escape_control_characters(text)));
    notes.chain(help).chain(block).map(Element::from)
}

fn replacement<'a>(diagnostic: &'a Diagnostic, sources: &'a SourceMap) -> Option<Group<'a>> {
    let replacement = diagnostic.replacement.as_ref()?;
    let excerpt = SourceExcerpt::around(replacement.span, sources);
    if excerpt.text.lines().any(|line| line.len() > CONTEXT_BYTES) {
        let message = format!("{}: `{}`", replacement.title, replacement.text);
        return Some(
            Level::HELP.secondary_title(shown_text(&message)).elements(Vec::<Element<'_>>::new()),
        );
    }
    let patch = Patch::new(excerpt.inside(replacement.span), replacement.text.clone());
    let snippet = Snippet::source(excerpt.text.clone()).line_start(excerpt.first_line).patch(patch);
    Some(Level::HELP.secondary_title(shown_text(&replacement.title)).element(snippet))
}

/// The bytes of one message, note or help line to show.
const MESSAGE_BYTES: usize = 16 << 10;

/// Returns a text of a diagnostic, which may quote a value of any length, on one line of a terminal.
fn shown_text(text: &str) -> String {
    in_one_line(&cut_text(text))
}

/// Like [`shown_text`], on lines that do not begin with the text.
fn shown_lines(text: &str) -> String {
    cut_text(text.trim_end()).replace('\n', "\n| ")
}

fn cut_text(text: &str) -> String {
    if text.len() <= MESSAGE_BYTES {
        return escape_control_characters(text);
    }
    let mut ends = (0..=MESSAGE_BYTES).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let shown = escape_control_characters(&text[..end]);
    format!("{shown}… ({} more bytes)", text.len() - end)
}

/// The source lines of a span. Long lines are cut to the text near the span.
struct SourceExcerpt {
    text: String,
    start: usize,
    first_line: usize,
    starts_within_line: bool,
}

/// The bytes of a line to show on each side of a span. This exceeds the width of a terminal, and keeps
/// many problems in one long line cheap.
const CONTEXT_BYTES: usize = 1000;

/// The bytes of a span to show.
const SPAN_BYTES: usize = 16 << 10;

impl SourceExcerpt {
    fn around(span: Span, sources: &SourceMap) -> Self {
        let text = sources.text(span.source);
        let range = span.range();
        let near = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at));
        let nearest = near(range.start.saturating_sub(CONTEXT_BYTES)).unwrap_or_default();
        let shown_end = range.end.min(range.start.saturating_add(SPAN_BYTES));
        let farthest =
            near(text.len().min(shown_end.saturating_add(CONTEXT_BYTES))).unwrap_or_default();
        let before = text.get(nearest..range.start).unwrap_or_default();
        let line_start = before.rfind('\n').map(|at| nearest + at + 1);
        let first = line_start.unwrap_or(nearest);
        let after = text.get(shown_end..farthest).unwrap_or_default();
        let last = after.find('\n').map_or(farthest, |at| shown_end + at);
        Self {
            text: sources.redacted_snippet(SourceMap::span(span.source, first..last.max(first))),
            start: first,
            first_line: sources.location(span).line,
            starts_within_line: line_start.is_none() && nearest > 0,
        }
    }

    fn inside(&self, span: Span) -> std::ops::Range<usize> {
        let range = span.range();
        let at = |offset: usize| offset.saturating_sub(self.start).min(self.text.len());
        at(range.start)..at(range.end)
    }
}

/// Returns the diagnostic as JSON. Lines and columns start at 1; columns count characters.
pub(crate) fn diagnostic_json(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let severity = match diagnostic.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let place = |span: Span| {
        let start = sources.location(span);
        let end = sources.location(Span { start: span.end, ..span });
        json!({
            "file": sources.name(span.source),
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
        })
    };
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| with(place(label.span), "text", label.text.clone()))
        .collect();
    let replacement = diagnostic.replacement.as_ref().map(|replacement| {
        let with_text = with(place(replacement.span), "text", replacement.text.clone());
        with(with_text, "title", replacement.title.clone())
    });
    let trail: Vec<Value> = diagnostic
        .trail
        .iter()
        .map(|step| {
            let place = step.span.map_or_else(|| json!({}), place);
            with(place, "text", step.text.clone())
        })
        .collect();
    let mut shown = json!({
        "code": diagnostic.code.as_str(),
        "severity": severity,
        "message": diagnostic.message,
        "labels": labels,
        "notes": diagnostic.notes,
        "help": diagnostic.help.iter().chain(&diagnostic.block).collect::<Vec<_>>(),
        "replacement": replacement,
    });
    if !trail.is_empty() {
        shown["trail"] = trail.into();
    }
    shown
}

fn with(mut object: Value, key: &str, value: String) -> Value {
    object[key] = Value::String(value);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::diagnostic::Code;

    fn plain(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
        anstream::adapter::strip_str(&render(diagnostic, sources, 100)).to_string()
    }

    #[test]
    fn the_source_line_is_underlined_and_the_replacement_is_shown() {
        let mut sources = SourceMap::default();
        let text = "id = \"db\"\ncapability {\n  access_mode = \"single-node-writter\" # 日本\n}\n";
        let id = sources.add("volume.hcl", text);
        let at = |needle: &str| {
            let start = text.find(needle).expect("needle is in the text");
            SourceMap::span(id, start..start + needle.len())
        };
        let diagnostic =
            Diagnostic::error(Code::SpecWrongType, "unknown access mode `single-node-writter`")
                .label(at("\"single-node-writter\""), "not an access mode")
                .label(at("capability"), "in this capability")
                .note("Nomad knows five")
                .help("see `nomad-csi explain spec/wrong-type`")
                .replace(
                    at("\"single-node-writter\""),
                    "\"single-node-writer\"",
                    "a similar one exists",
                );
        let expected = "\
error[spec/wrong-type]: unknown access mode `single-node-writter`
 --> volume.hcl:3:17
  |
2 | capability {
  | ---------- in this capability
3 |   access_mode = \"single-node-writter\" # 日本
  |                 ^^^^^^^^^^^^^^^^^^^^^ not an access mode
  |
  = note: Nomad knows five
  = help: see `nomad-csi explain spec/wrong-type`
help: a similar one exists
  |
3 -   access_mode = \"single-node-writter\" # 日本
3 +   access_mode = \"single-node-writer\" # 日本
  |";
        assert_eq!(plain(&diagnostic, &sources), expected);
        let json = diagnostic_json(&diagnostic, &sources);
        assert_eq!(
            (&json["code"], &json["labels"][0]["line"], &json["labels"][0]["end_column"]),
            (&json!("spec/wrong-type"), &json!(3), &json!(38)),
        );
    }

    /// Generated JSON may be one long line with many problems.
    #[test]
    fn a_long_line_is_cut_to_the_text_near_the_problem() {
        let mut sources = SourceMap::default();
        let far = "日x".repeat(100_000);
        let text = format!("{far}\"nane\"{far}");
        let id = sources.add("x.json", text.as_str());
        let span = SourceMap::span(id, far.len()..far.len() + 6);
        let diagnostic = Diagnostic::error(Code::SpecUnknownField, "`nane` is not a key")
            .label(span, "did you mean `name`?")
            .replace(span, "\"name\"", "a similar one exists");
        let shown = plain(&diagnostic, &sources);
        assert!(shown.contains(" --> x.json:1:200001\n"), "{shown}");
        assert!(shown.contains("^^^^^^ did you mean `name`?"), "{shown}");
        assert!(shown.ends_with("help: a similar one exists: `\"name\"`"), "{shown}");
        assert!(shown.len() < 1000, "{shown}");
    }

    #[test]
    fn labels_that_are_far_apart_have_excerpts_of_their_own() {
        let text = format!("id = 1\n{}id = 2\n", "# line\n".repeat(10_000));
        let mut sources = SourceMap::default();
        let id = sources.add("x.hcl", text.as_str());
        let last = text.len() - "id = 2\n".len();
        let diagnostic = Diagnostic::error(Code::SpecDuplicateField, "duplicate field `id`")
            .label(SourceMap::span(id, last..last + 2), "repeated here")
            .label(SourceMap::span(id, 0..2), "first here");
        let expected = "\
error[spec/duplicate-field]: duplicate field `id`
     --> x.hcl:10002:1
      |
10002 | id = 2
      | ^^ repeated here
      |
     ::: x.hcl:1:1
      |
    1 | id = 1
      | -- first here";
        assert_eq!(plain(&diagnostic, &sources), expected);
    }

    #[test]
    fn a_long_message_is_cut_at_its_limit() {
        let sources = SourceMap::default();
        let shown = |length: usize| {
            let message = "é".repeat(length / 2);
            plain(&Diagnostic::error(Code::Internal, message), &sources)
        };
        assert!(shown(MESSAGE_BYTES).ends_with("éé"));
        assert!(shown(MESSAGE_BYTES + 2).ends_with("éé… (2 more bytes)"));
    }

    #[test]
    fn a_diagnostic_without_a_position_shows_its_message_and_notes() {
        let diagnostic = Diagnostic::warning(Code::Internal, "nothing is left")
            .note("the server said:\nfirst\n\u{1b}[2Jsecond");
        let expected = "\
warning[internal]: nothing is left
 |
 = note: the server said:
         | first
         | ␛[2Jsecond";
        assert_eq!(plain(&diagnostic, &SourceMap::default()), expected);
    }

    /// Every text of a diagnostic may quote a name: none of its lines begins one of the output.
    #[test]
    fn no_line_of_a_name_begins_a_line() {
        let name = "a\n::error::x\r\n##[group]y";
        let mut sources = SourceMap::default();
        let id = sources.add(name, "id = 1\n");
        let diagnostic = Diagnostic::error(Code::Internal, name)
            .label(SourceMap::span(id, 0..2), name)
            .note(name)
            .help(name)
            .replace(SourceMap::span(id, 5..6), "2", name);
        for shown in [
            plain(&diagnostic, &sources),
            anstream::adapter::strip_str(&render_short(&diagnostic, &sources)).to_string(),
        ] {
            let begins = |line: &str| {
                let line = line.trim_start();
                line.starts_with("::error") || line.starts_with("##[")
            };
            assert!(!shown.lines().any(begins), "{shown}");
            assert!(shown.contains("a␊::error::x␍␊##[group]y"), "{shown}");
        }
    }

    #[test]
    fn positions_at_the_end_and_in_an_empty_text_are_rendered() {
        for text in ["", "a = 1", "a = 1\n", "\u{feff}a"] {
            let mut sources = SourceMap::default();
            let id = sources.add("x.hcl", text);
            let span = SourceMap::span(id, text.len()..text.len());
            let diagnostic = Diagnostic::error(Code::SpecSyntax, "ends here").label(span, "here");
            assert!(plain(&diagnostic, &sources).contains("x.hcl:"), "{text:?}");
        }
    }
}
