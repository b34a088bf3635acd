//! Reads the text of a job file to a tree, and hides what may be secret in it.
//!
//! Hidden are the values of every `env` block and of keys that look like a secret. In a text that
//! does not parse, everything from the word `env` to the next line that closes a block is hidden too.

use std::ops::Range;
use std::sync::Arc;

use super::mask_comments::secret_comments;
use super::parse::{hidden_ranges, withheld};
use super::parse_error::ParseError;
use super::syntax::Syntax;
use super::tree::{Object, Value};
use super::unrendered::{FileKind, Templates, unrendered, unrendered_text};
use super::{hcl, json, mask, yaml};
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity, SourceId, SourceMap, Span};

/// The tree of a job file.
pub(crate) struct JobText<'a> {
    /// The top level: one object per YAML document.
    pub(crate) documents: Vec<Object<'a>>,
    /// The syntax, which the text decides for JSON.
    pub(crate) syntax: Syntax,
    /// Refused expressions with their positions. Those in parts of the file that are not used do
    /// not matter.
    pub(crate) expressions: Diagnostics,
}

/// Calls `decode` with the tree of a text, and adds all problems to `diagnostics`. Of a withheld
/// text, no diagnostic shows anything. Returns `None` if the text does not parse.
pub(crate) fn read_job_text<T>(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
    decode: impl FnOnce(&str, JobText<'_>, &mut Diagnostics) -> T,
) -> Option<T> {
    let text = Arc::clone(sources.text(source));
    let mut problems = Diagnostics::default();
    let decoded = match read(&text, source, syntax, &mut problems) {
        Ok(job) => {
            for document in &job.documents {
                mask::for_each_secret(document, &mut |span| sources.hide(span));
                for_each_environment(document, &mut |span| sources.hide(span));
            }
            let is_sensitive =
                |key: &str| mask::is_sensitive(key) || key.eq_ignore_ascii_case(ENVIRONMENT);
            let comments = secret_comments(&text, job.syntax, &job.documents, is_sensitive);
            for range in comments {
                sources.hide(SourceMap::span(source, range));
            }
            let is_hcl = job.syntax == Syntax::Hcl;
            let decoded = decode(&text, job, &mut problems);
            if is_hcl {
                check_hcl2(&text, source, &mut problems);
            }
            Some(decoded)
        }
        Err(problem) => {
            let secrets = hidden_ranges(&text, syntax, &problem);
            for range in secrets.into_iter().chain(environments(&text)) {
                sources.hide(SourceMap::span(source, range));
            }
            let problem = unrendered(&text, syntax, FileKind::Job, &problem).unwrap_or(problem);
            let others = match problem.is_of_reference {
                true => hcl::malformed_references(&text),
                false => vec![],
            };
            let place = problem.range.start;
            problems.push(problem.into_diagnostic(source));
            let others = others.into_iter().filter(|other| other.range.start < place);
            others.for_each(|other| problems.push(other.into_diagnostic(source)));
            None
        }
    };
    if sources.is_withheld(source) && !problems.is_empty() {
        diagnostics.push(withheld(sources.name(source), problems.has_errors()));
    } else {
        diagnostics.extend(problems);
    }
    decoded
}

/// Reports what HCL2 does not accept in a file that was read.
fn check_hcl2(text: &str, source: SourceId, problems: &mut Diagnostics) {
    let place = |one: &Diagnostic| one.labels.first().map(|label| label.span.start);
    for malformed in hcl::malformed_references(text) {
        let malformed = malformed.into_diagnostic(source);
        if !problems.iter().any(|one| place(one) == place(&malformed)) {
            problems.push(malformed);
        }
    }
    if let Some(warning) = unrendered_text(text, source) {
        problems.push(warning);
    }
    // Other problems explain better what is wrong than the strict grammar.
    if !problems.has_errors()
        && let Some(problem) = hcl::not_hcl2(text)
    {
        problems.push(problem.into_diagnostic(source));
    }
    replace_by_template(text, source, problems);
}

/// Replaces the errors inside of an action of a template, whose quotes end the text around it.
fn replace_by_template(text: &str, source: SourceId, problems: &mut Diagnostics) {
    if !text.contains("[[") && !text.contains("{{") {
        return;
    }
    let templates = Templates::of(text, Syntax::Hcl);
    let replaced = std::mem::take(problems).map(|problem| {
        let Some(label) = problem.labels.first().filter(|_| problem.severity == Severity::Error)
        else {
            return problem;
        };
        let place = label.span.range().start;
        let template = templates.problem(FileKind::Job, place);
        match template.filter(|found| found.range.contains(&place)) {
            Some(template) => template.into_diagnostic(source),
            None => problem,
        }
    });
    *problems = replaced;
}

/// Hides what may be secret in a job file that parses.
pub(super) fn hide_job_secrets(sources: &mut SourceMap, source: SourceId, syntax: Syntax) {
    read_job_text(sources, source, syntax, &mut Diagnostics::default(), |_, _, _| ());
}

fn read<'a>(
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
) -> Result<JobText<'a>, ParseError> {
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(text) => Syntax::Json,
        syntax => syntax,
    };
    let mut expressions = Diagnostics::default();
    let documents = match syntax {
        Syntax::Hcl => vec![hcl::parse_job(text, source, &mut expressions)?],
        Syntax::Json => vec![json::parse(text, source, diagnostics)?],
        Syntax::Yaml => yaml::parse(text, source, diagnostics)?,
    };
    Ok(JobText { documents, syntax, expressions })
}

/// Calls `hide` for every value under a key `env`, in any case.
fn for_each_environment(object: &Object<'_>, hide: &mut impl FnMut(Span)) {
    for entry in object.entries.iter().chain(&object.duplicates) {
        if entry.key.text.eq_ignore_ascii_case(ENVIRONMENT) {
            entry.value.for_each_scalar(hide);
        } else {
            each_inner(&entry.value.value, hide);
        }
    }
}

fn each_inner(value: &Value<'_>, hide: &mut impl FnMut(Span)) {
    match value {
        Value::Object(object) => for_each_environment(object, hide),
        Value::List(items) => items.iter().for_each(|item| each_inner(&item.value, hide)),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_) => {}
    }
}

const ENVIRONMENT: &str = "env";

/// Returns what may be an environment in a text that does not parse: from the word to the next line
/// that closes a block, or to the end.
pub(super) fn environments(text: &str) -> Vec<Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let lower = text.to_ascii_lowercase();
    let mut found = vec![];
    let mut from = 0;
    while let Some(at) = lower[from..].find(ENVIRONMENT) {
        let start = from + at;
        let after = start + ENVIRONMENT.len();
        let is_part = text[..start].ends_with(is_word) || text[after..].starts_with(is_word);
        if is_part {
            from = after;
            continue;
        }
        let rest = &text[after..];
        let length = rest
            .match_indices('\n')
            .find(|(line_end, _)| {
                // Only of this line: the time must not grow with the lines that follow.
                let line = rest[line_end + 1..].trim_start_matches([' ', '\t']);
                line.starts_with('}')
            })
            .map_or(rest.len(), |(line_end, _)| line_end);
        found.push(after..after + length);
        from = after + length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, syntax: Syntax) -> String {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("job", text);
        read_job_text(&mut sources, source, syntax, &mut diagnostics, |_, _, _| ());
        sources.redacted_text(source).to_string()
    }

    /// Each line is looked at once, however many empty ones follow: with two million, this test would not
    /// end otherwise.
    #[test]
    fn many_empty_lines_after_an_environment_are_read_in_one_pass() {
        let text = format!("job \"x\" {{ env {{{}= = ", "\n".repeat(2_000_000));
        let hidden = environments(&text);
        let after = text.find("env").unwrap() + "env".len();
        assert_eq!(hidden, std::slice::from_ref(&(after..text.len())));
    }

    #[test]
    fn environments_and_secrets_are_hidden_even_in_a_text_that_does_not_parse() {
        let hcl = "job \"x\" {\n  env {\n    DSN = \"hunter2\"\n  }\n  password = \"hunter3\"\n}\n";
        for (text, syntax) in [
            (hcl.to_owned(), Syntax::Hcl),
            (hcl.replace("password", "= password"), Syntax::Hcl),
            ("{\"Job\": {\"Env\": {\"DSN\": \"hunter2\"}}}".into(), Syntax::Json),
            ("job:\n  env:\n    DSN: hunter2\n".into(), Syntax::Yaml),
            ("job:\n  env:\n    DSN: #hunter2\n".into(), Syntax::Yaml),
            ("job:\n  env:\n    DSN: hunter2\n x: [".into(), Syntax::Yaml),
        ] {
            let shown = shown(&text, syntax);
            assert!(!shown.contains("hunter"), "{shown}");
            assert!(shown.contains("job") || shown.contains("Job"), "{shown}");
        }
    }
}
