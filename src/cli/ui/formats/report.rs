//! `--format FORM=FILE`: which form goes where.

use super::github::github;
use super::junit::junit;
use super::markdown::markdown;
use super::sarif::sarif;
use crate::diagnostic::{Diagnostic, SourceMap};
use crate::plan::Plan;

/// What a report is about.
#[derive(Clone, Copy)]
pub(crate) struct Reported<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Everything that is to be said of it, with its places.
    pub remarks: &'a [Diagnostic],
    /// The texts that the places are in.
    pub sources: &'a SourceMap,
    /// What people call the server.
    pub server: &'a str,
}

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Sarif,
    Junit,
    Github,
    Markdown,
}

/// One report that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportFile {
    form: Form,
    /// The file, or `-`.
    file: String,
}

impl ReportFile {
    /// The file; `None` is standard output.
    pub(crate) fn file(&self) -> Option<&str> {
        (self.file != "-").then_some(self.file.as_str())
    }
}

impl std::str::FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, file) = text.split_once('=').unwrap_or((text, ""));
        let form = match word {
            "sarif" => Form::Sarif,
            "junit" => Form::Junit,
            "github" => Form::Github,
            "markdown" => Form::Markdown,
            _ => return Err("the forms are sarif, junit, github and markdown".to_owned()),
        };
        if file.is_empty() {
            return Err(format!(
                "write `{word}=FILE`, or `{word}=-` for standard output"
            ));
        }
        let file = file.to_owned();
        Ok(Self { form, file })
    }
}

/// The text of a report, without a line end.
pub(crate) fn report(file: &ReportFile, reported: Reported<'_>) -> String {
    match file.form {
        Form::Sarif => sarif(reported),
        Form::Junit => junit(reported),
        Form::Github => github(reported),
        Form::Markdown => markdown(reported),
    }
}
