//! The uses of CSI volumes in jobs.

use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{
    AccessMode, Capability, Job, JobVolume, JobVolumeKind, Namespace, TaskGroup, VolumeAlias,
};
use nomad_csi_spec::job::{JobPlace, JobPlaces};

/// A job of a file.
#[derive(Clone, Debug)]
pub struct LintedJob<'j> {
    /// The job.
    pub job: &'j Job,
    /// Where its parts are in the file.
    pub places: &'j JobPlaces,
}

/// The use of a volume by a group.
#[derive(Clone, Copy)]
pub(super) struct VolumeUse<'j> {
    pub(super) job: &'j Job,
    pub(super) group: &'j TaskGroup,
    pub(super) alias: &'j VolumeAlias,
    pub(super) volume: &'j JobVolume,
    /// The modes that the group asks for; `None` if the file does not say both.
    pub(super) capability: Option<Capability>,
    places: &'j JobPlaces,
    group_at: usize,
}

impl<'j> VolumeUse<'j> {
    /// Returns all uses of CSI volumes whose source is known before the job runs.
    pub(super) fn of_jobs<'s>(
        jobs: &'s [LintedJob<'j>],
    ) -> impl Iterator<Item = Self> + use<'s, 'j> {
        jobs.iter().flat_map(|linted| {
            let (job, places) = (linted.job, linted.places);
            job.groups.iter().enumerate().flat_map(move |(group_at, group)| {
                group.volumes.iter().filter_map(move |(alias, volume)| {
                    let capability = match &volume.kind {
                        JobVolumeKind::Host { .. } => return None,
                        JobVolumeKind::Csi { access_mode, attachment_mode, .. } => {
                            access_mode.zip(*attachment_mode)
                        }
                    };
                    let capability = capability.map(|(access_mode, attachment_mode)| Capability {
                        access_mode,
                        attachment_mode,
                    });
                    let is_known = !volume.source.is_empty() && !volume.source.contains("${");
                    is_known.then_some(Self {
                        job,
                        group,
                        alias,
                        volume,
                        capability,
                        places,
                        group_at,
                    })
                })
            })
        })
    }

    pub(super) fn namespace(&self) -> &'j Namespace {
        &self.job.namespace
    }

    /// Returns the number of allocations; that of a system job depends on the nodes.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.group.count.max(0)).unwrap_or(u32::MAX)
    }

    fn place(&self) -> JobPlace {
        JobPlace::group(self.group_at).block("volume", self.alias.as_str())
    }

    /// Returns the position of the volume's block.
    pub(super) fn span(&self) -> Span {
        self.places.span(&self.place())
    }

    /// Returns the position of a field of the volume.
    pub(super) fn field(&self, field: &'static str) -> Span {
        self.places.span(&self.place().field(field))
    }

    /// Returns whether the group writes under a mode that allows one writer.
    pub(super) fn is_single_writer(&self) -> bool {
        let mode = self.capability.map(|capability| capability.access_mode);
        let allows_one = match mode {
            Some(AccessMode::SingleNodeWriter | AccessMode::MultiNodeSingleWriter) => true,
            Some(
                AccessMode::SingleNodeReaderOnly
                | AccessMode::MultiNodeReaderOnly
                | AccessMode::MultiNodeMultiWriter,
            )
            | None => false,
        };
        allows_one && !self.volume.read_only
    }

    /// Returns an error whose headline begins with the volume and its group.
    pub(super) fn error(&self, code: Code, what: &str) -> Diagnostic {
        Diagnostic::error(code, self.headline(what))
    }

    /// Returns a warning whose headline begins with the volume and its group.
    pub(super) fn warning(&self, code: Code, what: &str) -> Diagnostic {
        Diagnostic::warning(code, self.headline(what))
    }

    fn headline(&self, what: &str) -> String {
        format!("volume `{}` of group `{}`: {what}", self.alias, self.group.name)
    }
}
