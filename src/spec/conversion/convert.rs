//! Converts a text, and reads the result again.

use std::sync::Arc;

use super::content::{Content, Part};
use super::nodes::ContentReader;
use super::write_data::{json_text, yaml_text};
use super::write_hcl::hcl;
use crate::expression::names::Names;
use crate::format::formatted;
use crate::hcl_kind::HclKind;
use crate::language::is_of_language;
use crate::parse::{hidden_ranges, parse_with_expressions, withheld};
use crate::parse_error::ParseError;
use crate::syntax::Syntax;
use crate::tree::{Object, ReferenceSource};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};

/// A converted specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The text.
    pub text: String,
    /// True if it refers to files, whose paths are relative to its directory.
    pub names_files: bool,
}

/// Returns a specification in another syntax. Adds what it cannot express to `diagnostics`.
pub fn convert(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    to: Syntax,
    diagnostics: &mut Diagnostics,
) -> Option<Converted> {
    let name = sources.name(source).to_owned();
    if sources.is_withheld(source) {
        diagnostics.push(withheld(&name, true));
        return None;
    }
    let text = Arc::clone(sources.text(source));
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    if syntax == to {
        let message = format!("cannot convert `{name}`: it is {} already", shown(to));
        let problem = Diagnostic::error(Code::CliInvalidValue, message);
        diagnostics.push(problem.help("choose another syntax with `--to`"));
        return None;
    }
    let mut problems = Diagnostics::default();
    let found = contents(&text, source, syntax, &mut problems);
    diagnostics.extend(problems);
    let documents = match found {
        Ok(documents) => documents,
        Err(Refused::Unread(problem)) => {
            for range in hidden_ranges(&text, syntax, &problem) {
                sources.hide(SourceMap::span(source, range));
            }
            diagnostics.push(problem.into_diagnostic(source));
            return None;
        }
        Err(Refused::Reported) => return None,
        Err(Refused::OfAnotherProgram) => {
            let message = format!("cannot convert `{name}`: it is not a specification of volumes");
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            diagnostics
                .push(problem.help("name a file with volumes, or with declarations for them"));
            return None;
        }
    };
    if diagnostics.has_errors() {
        return None;
    }
    if documents.len() > 1 && to != Syntax::Yaml {
        let message = format!(
            "cannot convert `{name}`: it has {} documents, and {} holds one",
            documents.len(),
            shown(to)
        );
        let problem = Diagnostic::error(Code::CliInvalidValue, message);
        diagnostics.push(problem.help("write each document into a file of its own"));
        return None;
    }
    let written = written(&documents, to);
    // What is read again must have the same content.
    let mut again = Diagnostics::default();
    let copy = SourceMap::default().add(name.as_str(), &*written);
    let is_equal = contents(&written, copy, to, &mut again).is_ok_and(|read| read == documents)
        && !again.has_errors();
    if is_equal {
        let names_files = documents.iter().any(|(content, _)| names_file(content));
        return Some(Converted { text: written, names_files });
    }
    let message = format!("cannot convert `{name}`: {} would not read the same", shown(to));
    let problem = Diagnostic::error(Code::CliInvalidValue, message)
        .note("a value or a key of the file has another meaning there, or none");
    diagnostics.push(problem.help("write values that depend on the syntax as texts in quotes"));
    None
}

fn names_file(content: &Content) -> bool {
    let calls = |source: &str| source.contains("file(");
    match content {
        Content::Reference(source, _) => *source == ReferenceSource::File,
        Content::Expression(source) => calls(source),
        Content::Template(parts) => parts.iter().any(|part| match part {
            Part::Expression(source) => calls(source),
            Part::Text(_) => false,
        }),
        Content::List(items) => items.iter().any(names_file),
        Content::Map(members) => members.iter().any(|member| names_file(&member.value)),
        Content::Null | Content::Unknown | Content::Scalar(..) => false,
    }
}

/// The word for a syntax in a message.
const fn shown(syntax: Syntax) -> &'static str {
    match syntax {
        Syntax::Hcl => "HCL",
        Syntax::Yaml => "YAML",
        Syntax::Json => "JSON",
    }
}

/// Why a text is not converted.
enum Refused {
    /// It does not parse.
    Unread(Box<ParseError>),
    /// What is wrong is reported.
    Reported,
    OfAnotherProgram,
}

/// The content of a document, and whether it is one of the language.
type Document = (Content, bool);

/// Returns the documents of a text.
fn contents(
    text: &str,
    source: SourceId,
    syntax: Syntax,
    problems: &mut Diagnostics,
) -> Result<Vec<Document>, Refused> {
    let objects = parse_with_expressions(text, source, syntax, &mut Names::default(), problems)
        .map_err(|problem| Refused::Unread(Box::new(problem)))?;
    let is_ours = |document: &Object<'_>| HclKind::of(document) == HclKind::Specification;
    if objects.is_empty() || !objects.iter().all(is_ours) {
        return Err(Refused::OfAnotherProgram);
    }
    if problems.has_errors() {
        return Err(Refused::Reported);
    }
    let mut documents = vec![];
    for object in &objects {
        let is_language = is_of_language(object);
        match (ContentReader { text, syntax, is_language }).document(object) {
            Ok(content) => documents.push((content, is_language)),
            Err(problem) => {
                problems.push(*problem);
                return Err(Refused::Reported);
            }
        }
    }
    Ok(documents)
}

fn written(documents: &[Document], to: Syntax) -> String {
    let written = documents.iter().map(|(content, is_language)| match to {
        Syntax::Hcl => {
            let text = hcl(content);
            let source = SourceMap::default().add("", text.as_str());
            let formatted = formatted(&text, source).ok().and_then(|(_, formatted)| formatted);
            formatted.unwrap_or(text)
        }
        Syntax::Yaml => yaml_text(content, *is_language),
        Syntax::Json => json_text(content, *is_language),
    });
    written.collect::<Vec<_>>().join("---\n")
}
