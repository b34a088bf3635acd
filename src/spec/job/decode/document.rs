//! Decodes the job of a file.

use std::collections::BTreeSet;

use super::fields::{FieldReader, Fields, Named};
use super::group::OfJob;
use super::values::WordSet;
use crate::job::file::{JobFile, ParsedJob};
use crate::job::place::{JobPlace, JobPlaces};
use crate::job::schema;
use crate::{Defaults, JobText, Object, Syntax};
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, Severity, SourceId, SourceMap, Span,
};
use nomad_csi_model::{Job, JobId, JobType, Namespace};

/// Decodes the only job of a file.
pub(in crate::job) fn decode(
    text: &str,
    source: SourceId,
    tree: &JobText<'_>,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Option<JobFile> {
    if let Some(span) = api_key(tree) {
        return Some(JobFile::Api(span));
    }
    let start = SourceMap::span(source, 0..0);
    let mut reader = FieldReader {
        text,
        syntax: tree.syntax,
        diagnostics,
        places: JobPlaces::new(start),
        ignored: BTreeSet::new(),
        first_ignored: None,
        ignored_spans: vec![],
    };
    let job = reader.file(&tree.documents, start, defaults);
    reader.report_expressions(&tree.expressions, start);
    reader.report_ignored();
    let places = reader.places;
    job.map(|job| JobFile::Specification(Box::new(ParsedJob { job, places })))
}

/// Returns the position of the key that shows that a JSON text is a document of Nomad's API.
fn api_key(tree: &JobText<'_>) -> Option<Span> {
    let [object] = &tree.documents[..] else {
        return None;
    };
    let is_api = |key: &str| matches!(key, "Job" | "TaskGroups" | "ID");
    let mut keys = object.entries.iter().map(|entry| &entry.key);
    let key = keys.find(|key| is_api(&key.text));
    key.filter(|_| tree.syntax == Syntax::Json).map(|key| key.span)
}

impl<'t, 'a> FieldReader<'_> {
    fn file(
        &mut self,
        documents: &'t [Object<'a>],
        start: Span,
        defaults: &Defaults,
    ) -> Option<Job> {
        let before = self.diagnostics.count(Severity::Error);
        let mut jobs = vec![];
        for object in documents {
            let fields = self.fields(object, schema::FILE, "a job file", JobPlace::default());
            jobs.extend(self.named(&fields, "job"));
        }
        let Some((first, others)) = jobs.split_first() else {
            if before == self.diagnostics.count(Severity::Error) {
                let message = "the file contains no job";
                self.error(Code::JobNone, message, start, "write a `job \"NAME\"` block");
            }
            return None;
        };
        for other in others {
            self.diagnostics.push(
                Diagnostic::error(Code::JobSeveral, "the file contains several jobs")
                    .label(other.header, "another job here")
                    .label(first.header, "first here")
                    .help(Code::JobSeveral.advice()),
            );
        }
        self.places = JobPlaces::new(first.header);
        Some(self.job(first, defaults))
    }

    fn job(&mut self, named: &Named<'t, 'a>, defaults: &Defaults) -> Job {
        let fields = self.fields(named.object, schema::JOB, "a job", JobPlace::default());
        let id = self.text(&fields, "id").unwrap_or_else(|| named.name.clone());
        let namespace = self.text(&fields, "namespace").filter(|text| !text.is_empty());
        let namespace = namespace.map_or_else(|| defaults.namespace.clone(), Namespace::new);
        let mut job = Job::new(namespace, JobId::new(id));
        job.name = self.text(&fields, "name").unwrap_or_else(|| named.name.clone());
        job.job_type = self.job_type(&fields).unwrap_or(job.job_type);
        if let Some(region) = self.text(&fields, "region") {
            job.region = region;
        }
        if let Some(priority) = self.integer(&fields, "priority").filter(|number| *number != 0) {
            job.priority = priority;
        }
        let datacenters = self.text_list(&fields, "datacenters");
        job.datacenters = datacenters.filter(|names| !names.is_empty()).unwrap_or(job.datacenters);
        let pool = self.text(&fields, "node_pool").filter(|name| !name.is_empty());
        job.node_pool = pool.unwrap_or(job.node_pool);
        job.constraints = self.constraints(&fields);
        job.meta = self.texts(&fields, "meta");
        job.periodic = self.periodic(&fields);
        job.parameterized = self.parameterized(&fields);
        let of_job = OfJob {
            canaries: self.canaries(&fields).unwrap_or_default(),
            reschedule: self.reschedule(&fields, job.job_type, None),
        };
        self.groups(&fields, &mut job, &of_job);
        job
    }

    fn job_type(&mut self, fields: &Fields<'t, 'a>) -> Option<JobType> {
        let set = WordSet::of(Code::JobUnknownWord, "job type", JobType::ALL, JobType::as_str);
        self.word(fields, "type", &set)
    }

    /// Decodes the groups. A task outside a group is a group of its own, with the same name.
    fn groups(&mut self, fields: &Fields<'t, 'a>, job: &mut Job, of_job: &OfJob) {
        for named in self.named(fields, "group") {
            let place = JobPlace::group(job.groups.len());
            let group = self.group(&named, place, job.job_type, of_job);
            job.groups.push(group);
        }
        for named in self.named(fields, "task") {
            let place = JobPlace::group(job.groups.len());
            let group = self.group_of_task(&named, &place, job.job_type, of_job);
            job.groups.push(group);
        }
    }

    /// Reports expressions, except in parts of the file that are not used.
    fn report_expressions(&mut self, expressions: &Diagnostics, start: Span) {
        let is_ignored = |place: Span| {
            let mut ignored = self.ignored_spans.iter();
            ignored.any(|ignored| ignored.to(place) == *ignored)
        };
        let is_used = |problem: &&Diagnostic| {
            let mut places = problem.labels.iter().map(|label| label.span);
            !places.any(is_ignored)
        };
        let used: Vec<_> = expressions.iter().filter(is_used).cloned().collect();
        for problem in used {
            self.diagnostics.push(problem);
        }
        let kept = expressions.iter().count();
        if expressions.count(Severity::Error) > kept {
            let message = format!("the job file contains more than {kept} expressions");
            let problem = Diagnostic::error(Code::JobExpression, message)
                .label(start, "those after them could not be checked")
                .help("write the values themselves, also in parts that are ignored");
            self.diagnostics.push(problem);
        }
    }

    /// Reports all ignored keys with one warning.
    fn report_ignored(&mut self) {
        let Some(first) = self.first_ignored else {
            return;
        };
        let keys: Vec<_> = self.ignored.iter().map(|key| format!("`{key}`")).collect();
        let message = match &keys[..] {
            [key] => format!("{key} is ignored: it does not concern volumes"),
            [others @ .., last] => {
                let others = others.join(", ");
                format!("{others} and {last} are ignored: they do not concern volumes")
            }
            [] => return,
        };
        self.diagnostics.push(
            Diagnostic::warning(Code::JobIgnored, message)
                .label(first, "the first of them")
                .note("a Nomad cluster carries them out; the agent of this program does not"),
        );
    }
}
