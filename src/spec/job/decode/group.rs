//! Decodes task groups.

use super::fields::{FieldReader, Fields, Named};
use crate::job::place::JobPlace;
use crate::job::schema;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{JobType, ReschedulePolicy, RestartPolicy, TaskGroup, VolumeAlias};

/// The settings of a job for all its groups.
#[derive(Default)]
pub(super) struct OfJob {
    /// The number of canaries.
    pub(super) canaries: i64,
    /// When a failed allocation is replaced.
    pub(super) reschedule: Option<ReschedulePolicy>,
}

impl<'t, 'a> FieldReader<'_> {
    /// Decodes a group.
    pub(super) fn group(
        &mut self,
        named: &Named<'t, 'a>,
        place: JobPlace,
        job_type: JobType,
        of_job: &OfJob,
    ) -> TaskGroup {
        self.places.insert(place.clone(), named.header);
        let fields = self.fields(named.object, schema::GROUP, "a group", place);
        let mut group = TaskGroup::new(&named.name, job_type);
        group.count = self.integer(&fields, "count").unwrap_or(group.count);
        group.canaries = self.canaries(&fields).unwrap_or(of_job.canaries);
        group.constraints = self.constraints(&fields);
        group.restart = self.restart(&fields, &RestartPolicy::of_type(job_type));
        group.reschedule = self
            .reschedule(&fields, job_type, of_job.reschedule.as_ref())
            .or_else(|| of_job.reschedule.clone())
            .and_then(|policy| policy.unless_default(job_type));
        self.volumes(&fields, &mut group);
        let meta = self.texts(&fields, "meta");
        for named in self.named(&fields, "task") {
            let place = fields.place.task(group.tasks.len());
            let mut task = self.task(&named, place, &group.restart);
            task.meta.fill_in(&meta);
            group.tasks.push(task);
        }
        group
    }

    /// Decodes a task outside of groups.
    pub(super) fn group_of_task(
        &mut self,
        named: &Named<'t, 'a>,
        place: &JobPlace,
        job_type: JobType,
        of_job: &OfJob,
    ) -> TaskGroup {
        self.places.insert(place.clone(), named.header);
        let mut group = TaskGroup::new(&named.name, job_type);
        group.canaries = of_job.canaries;
        let policy = of_job.reschedule.clone();
        group.reschedule = policy.and_then(|policy| policy.unless_default(job_type));
        let task = self.task(named, place.task(0), &group.restart);
        group.tasks.push(task);
        group
    }

    fn volumes(&mut self, fields: &Fields<'t, 'a>, group: &mut TaskGroup) {
        for named in self.named(fields, "volume") {
            let place = fields.place.block("volume", &named.name);
            let alias = VolumeAlias::new(&named.name);
            if group.volumes.contains_key(&alias) {
                let first = self.places.span(&place);
                let message =
                    format!("volume `{alias}` of group `{}` is declared twice", group.name);
                self.diagnostics.push(
                    Diagnostic::error(Code::JobDuplicate, message)
                        .label(named.header, "repeated here")
                        .label(first, "first here")
                        .note("Nomad uses the last one and drops the others without a message"),
                );
                continue;
            }
            self.places.insert(place.clone(), named.header);
            if let Some(volume) = self.volume(&named, place.clone()) {
                group.volumes.insert(alias, volume);
            } else {
                self.places.mark_unreadable(place);
            }
        }
    }
}
