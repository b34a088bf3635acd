//! Decodes the blocks that several parts of a job have: `restart`, `reschedule` and `update`.

use super::fields::{FieldReader, Fields};
use super::values::WordSet;
use crate::job::schema;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{DelayFunction, JobType, ReschedulePolicy, RestartMode, RestartPolicy};

impl<'t, 'a> FieldReader<'_> {
    /// Decodes a restart policy. What the block does not set is that of `base`.
    pub(super) fn restart(
        &mut self,
        fields: &Fields<'t, 'a>,
        base: &RestartPolicy,
    ) -> RestartPolicy {
        let Some(object) = self.single_block(fields, "restart") else {
            return base.clone();
        };
        let place = fields.place.block("restart", "");
        let fields = self.fields(object, schema::RESTART, "`restart`", place);
        let mode = self.word(
            &fields,
            "mode",
            &WordSet::of(
                Code::JobUnknownWord,
                "restart mode",
                RestartMode::ALL,
                RestartMode::as_str,
            ),
        );
        RestartPolicy {
            attempts: self.attempts(&fields).unwrap_or(base.attempts),
            interval: self.duration(&fields, "interval").unwrap_or(base.interval),
            delay: self.duration(&fields, "delay").unwrap_or(base.delay),
            mode: mode.unwrap_or(base.mode),
        }
    }

    /// Decodes when a failed allocation is replaced; `None` without such a block. What the block does not
    /// set is that of `base`, or the default of the job's type.
    pub(super) fn reschedule(
        &mut self,
        fields: &Fields<'t, 'a>,
        job_type: JobType,
        base: Option<&ReschedulePolicy>,
    ) -> Option<ReschedulePolicy> {
        let entry = self.single(fields, "reschedule")?;
        let object = self.block(entry)?;
        if matches!(job_type, JobType::System | JobType::Sysbatch) {
            let message = format!("a job of type `{job_type}` cannot have `reschedule`");
            let span = entry.key.span;
            self.error(Code::JobInvalidValue, message, span, "remove this block");
        }
        let default = ReschedulePolicy::of_type(job_type);
        let base = base.unwrap_or(&default);
        let place = fields.place.block("reschedule", "");
        let fields = self.fields(object, schema::RESCHEDULE, "`reschedule`", place);
        let functions = WordSet::of(
            Code::JobUnknownWord,
            "delay function",
            DelayFunction::ALL,
            DelayFunction::as_str,
        );
        let function = self.word(&fields, "delay_function", &functions);
        Some(ReschedulePolicy {
            attempts: self.attempts(&fields).unwrap_or(base.attempts),
            interval: self.duration(&fields, "interval").unwrap_or(base.interval),
            delay: self.duration(&fields, "delay").unwrap_or(base.delay),
            delay_function: function.unwrap_or(base.delay_function),
            max_delay: self.duration(&fields, "max_delay").unwrap_or(base.max_delay),
            unlimited: self.boolean(&fields, "unlimited").unwrap_or(base.unlimited),
        })
    }

    fn attempts(&mut self, fields: &Fields<'t, 'a>) -> Option<u32> {
        let attempts = self.integer(fields, "attempts")?;
        let valid = u32::try_from(attempts).ok();
        if valid.is_none() {
            let place = fields.place.field("attempts");
            let span = self.places.span(&place);
            let message = format!("`attempts` is {attempts}, which is not a number of restarts");
            self.error(Code::JobInvalidValue, message, span, "expected 0 or more");
            self.places.mark_unreadable(place);
        }
        valid
    }

    /// Decodes the number of canaries of an `update` block.
    pub(super) fn canaries(&mut self, fields: &Fields<'t, 'a>) -> Option<i64> {
        let object = self.single_block(fields, "update")?;
        let place = fields.place.block("update", "");
        let update = self.fields(object, schema::UPDATE, "`update`", place);
        self.integer(&update, "canary")
    }
}
