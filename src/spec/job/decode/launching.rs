//! Decodes when a job starts by itself, and what a request to run it gives.

use super::fields::{FieldReader, Fields};
use super::values::WordSet;
use crate::job::schema;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Parameterized, PayloadRule, Periodic};

impl<'t, 'a> FieldReader<'_> {
    /// Decodes the `periodic` block of a job.
    pub(super) fn periodic(&mut self, fields: &Fields<'t, 'a>) -> Option<Periodic> {
        let entry = self.single(fields, "periodic")?;
        let object = self.block(entry)?;
        let place = fields.place.block("periodic", "");
        self.places.insert(place.clone(), entry.key.span);
        let fields = self.fields(object, schema::PERIODIC, "`periodic`", place);
        Some(Periodic {
            is_enabled: self.boolean(&fields, "enabled").unwrap_or(true),
            cron: self.text(&fields, "cron").unwrap_or_default(),
            crons: self.text_list(&fields, "crons").unwrap_or_default(),
            time_zone: self.text(&fields, "time_zone").unwrap_or_default(),
            prohibits_overlap: self.boolean(&fields, "prohibit_overlap").unwrap_or_default(),
        })
    }

    /// Decodes the `parameterized` block of a job.
    pub(super) fn parameterized(&mut self, fields: &Fields<'t, 'a>) -> Option<Parameterized> {
        let entry = self.single(fields, "parameterized")?;
        let object = self.block(entry)?;
        let place = fields.place.block("parameterized", "");
        self.places.insert(place.clone(), entry.key.span);
        let fields = self.fields(object, schema::PARAMETERIZED, "`parameterized`", place);
        let rules = WordSet::of(
            Code::JobUnknownWord,
            "payload rule",
            PayloadRule::ALL,
            PayloadRule::as_str,
        );
        let payload = self.word(&fields, "payload", &rules);
        Some(Parameterized {
            payload: payload.unwrap_or(PayloadRule::Optional),
            meta_required: self.text_list(&fields, "meta_required").unwrap_or_default(),
            meta_optional: self.text_list(&fields, "meta_optional").unwrap_or_default(),
        })
    }

    /// Decodes the `dispatch_payload` block of a task: the name of the file.
    pub(super) fn payload_file(&mut self, fields: &Fields<'t, 'a>) -> Option<String> {
        let entry = self.single(fields, "dispatch_payload")?;
        let object = self.block(entry)?;
        let place = fields.place.block("dispatch_payload", "");
        self.places.insert(place.clone(), entry.key.span);
        let fields = self.fields(object, schema::DISPATCH_PAYLOAD, "`dispatch_payload`", place);
        let file = self.text(&fields, "file");
        file.filter(|file| !file.is_empty())
    }
}
