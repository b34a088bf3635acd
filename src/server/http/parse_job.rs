//! `POST /v1/jobs/parse`: a job file in the body becomes the job that clients send to `/v1/jobs`.
//!
//! It is the parser of `nomad-csi job run`, so what the agent does not carry out is refused or left out here as well. A file
//! that is wrong is an error of the request, with the position of each problem.

use serde::Deserialize;

use super::jobs::validation_permit;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};
use nomad_csi_spec::job::{JobFile, parse_job};
use nomad_csi_spec::{Defaults, Syntax};
use nomad_csi_wire::{JobDocument, job_to_wire};

/// The name of the text in messages: that of its field.
const TEXT: &str = "JobHCL";

/// How many problems a message names.
const LISTED_PROBLEMS: usize = 10;

/// The body of the request. A job always has its defaults, so `Canonicalize` changes nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ParseRequest {
    /// The text of the file, which is HCL or JSON.
    #[serde(rename = "JobHCL")]
    text: String,
    /// Values of variables, which this program does not evaluate.
    #[serde(rename = "Variables")]
    variables: String,
    /// True if the text is in the first version of HCL.
    hclv1: bool,
}

/// Parses a job file. Anyone may ask, so it waits for the permit of validations, away from the threads that everything else
/// needs.
pub(super) async fn parse(request: &IncomingRequest) -> Result<Reply, ServerError> {
    let ParseRequest { text, variables, hclv1 } = request.document()?;
    let refused = match (text.trim().is_empty(), variables.trim().is_empty(), hclv1) {
        (true, _, _) => Some("Job spec is empty"),
        (false, _, true) => Some("`hclv1` is not supported: this agent reads HCL2"),
        (false, false, false) => {
            Some("`Variables` is not supported: this agent evaluates no variables in a job file")
        }
        (false, true, false) => None,
    };
    if let Some(reason) = refused {
        return Err(JobError::BadRequest(reason.to_owned()).into());
    }
    let namespace = request.parameters.namespace_or_default();
    let permit = validation_permit(request).await?;
    let parsed = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        parsed_job(text, namespace)
    });
    let document = parsed.await.map_err(|_| ServerError::Stopping)?;
    let document = document.map_err(JobError::BadRequest)?;
    Reply::json(&document, request.pretty)
}

/// Returns the job of a text, or what is wrong with the text.
fn parsed_job(text: String, namespace: Namespace) -> Result<JobDocument, String> {
    let mut sources = SourceMap::default();
    let syntax = match text.trim_start().starts_with('{') {
        true => Syntax::Json,
        false => Syntax::Hcl,
    };
    let source = sources.add(TEXT, text);
    let mut problems = Diagnostics::default();
    let defaults = Defaults { namespace };
    let file = parse_job(&mut sources, source, syntax, &defaults, &mut problems);
    if problems.has_errors() {
        return Err(described(&problems, &sources));
    }
    match file {
        Some(JobFile::Specification(parsed)) => Ok(job_to_wire(&parsed.job)),
        Some(JobFile::Api(_)) => {
            Err(format!("`{TEXT}` is a job in JSON already: send it to `/v1/jobs`"))
        }
        None => Err(format!("`{TEXT}` has no `job` block")),
    }
}

/// Returns the first problems in one line, each with its position.
fn described(problems: &Diagnostics, sources: &SourceMap) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let place = |problem: &Diagnostic| {
        let label = problem.labels.first()?;
        let location = sources.location(label.span);
        Some(format!("{TEXT}:{}:{}: ", location.line, location.column))
    };
    let lines: Vec<_> = errors
        .map(|problem| format!("{}{}", place(problem).unwrap_or_default(), problem.message))
        .collect();
    let others = lines.len().saturating_sub(LISTED_PROBLEMS);
    let listed = lines.into_iter().take(LISTED_PROBLEMS).collect::<Vec<_>>().join("; ");
    match others {
        0 => listed,
        others => format!("{listed}; and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parsed_job(text.to_owned(), Namespace::default()).unwrap_err()
    }

    #[test]
    fn every_problem_has_its_position() {
        let text = "job \"x\" {\n  group \"g\" {\n    cout = 2\n    task \"t\" {\n      dirver = \"exec\"\n    }\n  }\n}";
        let refusal = refusal(text);
        assert!(refusal.contains("JobHCL:3:5: "), "{refusal}");
        assert!(refusal.contains("; JobHCL:5:7: "), "{refusal}");
        assert!(refusal.contains("`cout`") && !refusal.contains('\n'), "{refusal}");
    }

    #[test]
    fn a_text_without_a_job_is_refused() {
        for (text, expected) in [
            ("volume \"x\" {}", "JobHCL"),
            ("job \"x\" {", "JobHCL:1:"),
            ("{\"Job\": {\"ID\": \"x\"}}", "send it to `/v1/jobs`"),
            ("# nothing", "JobHCL"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(expected), "{text}: {refusal}");
        }
        let deep = format!("job \"x\" {{ a = {}1{} }}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!refusal(&deep).is_empty());
    }

    #[test]
    fn many_problems_are_counted() {
        let keys: String = (0..25).map(|n| format!("unknown_{n} = 1\n")).collect();
        let refusal = refusal(&format!("job \"x\" {{\n{keys}\ngroup \"g\" {{}}\n}}"));
        assert!(refusal.contains("; and ") && refusal.ends_with(" more"), "{refusal}");
    }

    #[test]
    fn the_job_is_in_the_words_of_the_api() {
        let text = "job \"x\" {\n type = \"batch\"\n group \"g\" {\n count = 2\n task \"t\" {\n driver = \"exec\"\n \
                    env {\n A = \"${node.class}\"\n }\n config {\n command = \"true\"\n }\n }\n }\n}";
        for (text, namespace) in [(text.to_owned(), "default"), (text.to_owned(), "team")] {
            let job = parsed_job(text, Namespace::new(namespace)).unwrap();
            let job = serde_json::to_value(job).unwrap();
            assert_eq!((&job["ID"], &job["Namespace"]), (&"x".into(), &namespace.into()));
            assert_eq!(job["TaskGroups"][0]["Count"], 2);
            assert_eq!(job["TaskGroups"][0]["Tasks"][0]["Env"]["A"], "${node.class}");
        }
        let json =
            "{\"job\": {\"y\": {\"group\": {\"g\": {\"task\": {\"t\": {\"driver\": \"exec\"}}}}}}}";
        assert_eq!(parsed_job(json.to_owned(), Namespace::default()).unwrap().id, "y");
    }
}
