//! Reads and checks job files, and collects their problems.

use super::args::SpecSyntax;
use super::command_context::CommandContext;
use nomad_csi_client::files::{self, SpecFilesRequest};
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, Severity, SourceId, SourceMap, Span,
};
use nomad_csi_model::{Job, Namespace};
use nomad_csi_plan::LintedJob;
use nomad_csi_spec::job::{JobFile, JobPlaces, check, parse_job, validate};
use nomad_csi_spec::{Defaults, Syntax};
use nomad_csi_wire::{JobDocument, JobRequestDocument, decode, ignored_parts, job_from_wire};

/// The jobs of files, with their problems.
pub(super) struct ReadJobs {
    /// The jobs. With an error, some are missing or incomplete.
    pub jobs: Vec<Job>,
    /// Where the parts of each job are in its file.
    pub places: Vec<JobPlaces>,
    pub file_count: usize,
    /// True if a job comes from JSON of Nomad's API, whose other parts are not noticed.
    pub has_api_documents: bool,
    pub sources: SourceMap,
    pub diagnostics: Diagnostics,
}

impl ReadJobs {
    /// Returns the jobs with their places.
    pub(super) fn linted(&self) -> Vec<LintedJob<'_>> {
        let jobs = self.jobs.iter().zip(&self.places);
        jobs.map(|(job, places)| LintedJob { job, places }).collect()
    }
}

/// Reads and checks job files, whose texts are added to `sources`. `namespace` is the one of jobs that name none.
pub(super) fn read_jobs(
    context: &CommandContext,
    files: &[String],
    syntax: Option<SpecSyntax>,
    namespace: Option<Namespace>,
    mut sources: SourceMap,
) -> ReadJobs {
    let mut diagnostics = Diagnostics::default();
    let defaults = Defaults { namespace: namespace.unwrap_or_default() };
    let texts = context.stdin.with_reader(|stdin| {
        let mut request = SpecFilesRequest {
            arguments: files,
            base_directory: &context.directory,
            stdin,
            syntax: syntax.map(Syntax::from),
            pipe_limit: files::PIPE_LIMIT,
            read_before: &files::StreamTexts::default(),
            shows_only_tree: false,
        };
        files::read_job_files(&mut request, &mut sources, &mut diagnostics)
    });
    let (mut jobs, mut all_places) = (vec![], vec![]);
    let mut has_api_documents = false;
    for (source, syntax) in &texts {
        let parsed = parse_job(&mut sources, *source, *syntax, &defaults, &mut diagnostics);
        match parsed {
            Some(JobFile::Specification(parsed)) => {
                check(&parsed, &mut diagnostics);
                jobs.push(parsed.job);
                all_places.push(parsed.places);
            }
            Some(JobFile::Api(place)) => {
                has_api_documents = true;
                let api = ApiJob { sources: &sources, source: *source, place };
                if let Some(job) = api.read(&defaults.namespace, &mut diagnostics) {
                    jobs.push(job);
                    all_places.push(JobPlaces::new(place));
                }
            }
            None => {}
        }
    }
    diagnostics.sort();
    ReadJobs {
        jobs,
        places: all_places,
        file_count: texts.len(),
        has_api_documents,
        sources,
        diagnostics,
    }
}

/// A job in the words of Nomad's API.
struct ApiJob<'s> {
    sources: &'s SourceMap,
    source: SourceId,
    place: Span,
}

impl ApiJob<'_> {
    /// Decodes and checks the job. All problems are at the job, because a document has no positions.
    fn read(&self, namespace: &Namespace, diagnostics: &mut Diagnostics) -> Option<Job> {
        let text = self.sources.text(self.source).as_bytes();
        let document = match job_document(text) {
            Ok(document) => document,
            Err(problem) => {
                let message = format!("the file is not a job of Nomad's API: {problem}");
                diagnostics.push(self.error(Code::SpecWrongType, message));
                return None;
            }
        };
        let (job, unknown) = job_from_wire(&document, namespace);
        if let Some(ignored) = ignored_parts(&document) {
            let warning =
                Diagnostic::warning(Code::JobIgnored, ignored).label(self.place, "in this job");
            diagnostics.push(warning);
        }
        for problem in unknown {
            diagnostics.push(self.error(Code::JobUnknownWord, problem.to_string()));
        }
        for problem in validate(&job) {
            let message = problem.message(&job);
            diagnostics.push(match problem.severity {
                Severity::Error => self.error(problem.code, message),
                Severity::Warning => {
                    Diagnostic::warning(problem.code, message).label(self.place, "in this job")
                }
            });
        }
        Some(job)
    }

    fn error(&self, code: Code, message: String) -> Diagnostic {
        Diagnostic::error(code, message).label(self.place, "in this job")
    }
}

/// Returns the job of a document: the document itself, or its `Job`.
fn job_document(text: &[u8]) -> Result<JobDocument, nomad_csi_wire::DecodeError> {
    let request: JobRequestDocument = decode(text)?;
    request.job.map_or_else(|| decode(text), Ok)
}
