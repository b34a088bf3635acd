//! Finds the job that a text on the command line names: its ID, or the start of its ID.

use super::abbreviation::{AbbreviatedChange, require_meant};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{JobId, JobKey, Namespace, one_line};
use nomad_csi_wire::JobStub;

/// How many jobs an error lists.
const MAX_LISTED: usize = 10;

/// Returns the job that the text names. `scope` is a namespace, or `*`.
///
/// # Errors
/// If no job or several match, the jobs cannot be listed, or the user interrupts.
pub async fn find_job(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    text: &str,
) -> Result<JobKey, WorkflowError> {
    let listing = context.api.list_jobs(scope, text);
    let listed = context.unless_interrupted(listing).await??;
    let jobs: Vec<JobStub> = listed.into_iter().map(|reading| reading.value).collect();
    matching(&jobs, text, scope).map_err(|problem| (*problem).into())
}

/// Returns the job that the text names, for a change of it: `action` is `stop job`. The start of an ID
/// has to be confirmed.
///
/// # Errors
/// Those of [`find_job`], and if the start of an ID is not confirmed.
pub async fn find_job_to_change(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    scope: &Namespace,
    text: &str,
    action: &str,
) -> Result<JobKey, WorkflowError> {
    let job = find_job(context, scope, text).await?;
    let change = AbbreviatedChange { action, id: job.id.as_str(), typed: text };
    require_meant(prompt, change).await?;
    Ok(job)
}

/// Returns the job with this ID, else the one whose ID starts so.
fn matching(jobs: &[JobStub], text: &str, scope: &Namespace) -> Result<JobKey, Box<Diagnostic>> {
    let exact: Vec<&JobStub> = jobs.iter().filter(|job| job.id == text).collect();
    let all: Vec<&JobStub> = jobs.iter().collect();
    let found = if exact.is_empty() { all } else { exact };
    match found.as_slice() {
        [] => Err(Box::new(no_job(text, scope))),
        [one] => Ok(job_key(one, scope)),
        several => Err(Box::new(several_jobs(several, text))),
    }
}

/// Returns the key of a listed job. A server that does not name the namespace means the requested one.
fn job_key(job: &JobStub, scope: &Namespace) -> JobKey {
    let named = [&job.namespace, &job.job_summary.namespace];
    let named = named.into_iter().find(|name| !name.is_empty());
    JobKey {
        namespace: named.map_or_else(|| scope.clone(), Namespace::new),
        id: JobId::new(&job.id),
    }
}

fn no_job(text: &str, scope: &Namespace) -> Diagnostic {
    let message = format!(
        "namespace `{scope}` has no job `{text}`, and none whose ID starts with it",
        text = one_line(text)
    );
    Diagnostic::error(Code::JobNotFound, message)
        .help("run `nomad-csi job status` to list the jobs")
}

fn several_jobs(jobs: &[&JobStub], text: &str) -> Diagnostic {
    let message = format!("`{}` names {} jobs", one_line(text), jobs.len());
    let names: Vec<String> = jobs
        .iter()
        .take(MAX_LISTED)
        .map(|job| format!("{} in {}", one_line(&job.id), one_line(&job.namespace)))
        .collect();
    let more = match jobs.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Diagnostic::error(Code::CliAmbiguousId, message)
        .note(format!("the jobs are: {}{more}", names.join(", ")))
        .help("use the full ID of one of them, and its namespace with `--namespace`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, namespace: &str) -> JobStub {
        JobStub { id: id.to_owned(), namespace: namespace.to_owned(), ..JobStub::default() }
    }

    #[test]
    fn an_id_wins_over_the_start_of_an_id() {
        let jobs = [job("web", "default"), job("web-2", "default")];
        let scope = Namespace::default();
        for (text, expected) in [("web", Ok("web")), ("w", Err(Code::CliAmbiguousId))] {
            let found = matching(&jobs, text, &scope);
            let found = found.map(|key| key.id).map_err(|problem| problem.code);
            assert_eq!(found, expected.map(JobId::new), "{text}");
        }
        let only = matching(&jobs[1..], "w", &scope).expect("one job starts so");
        assert_eq!(only.id, JobId::new("web-2"));
        let none = matching(&[], "x", &scope).expect_err("no job");
        assert_eq!(none.code, Code::JobNotFound);
    }

    #[test]
    fn one_id_in_two_namespaces_is_ambiguous() {
        let jobs = [job("web", "a"), job("web", "b")];
        let problem = matching(&jobs, "web", &Namespace::new(Namespace::ALL)).expect_err("two");
        assert_eq!(problem.notes, ["the jobs are: web in a, web in b"]);
    }
}
