//! The limits of what clients can put into the state: by number, and by bytes where one object may be long.
//!
//! The writer checks them for each commit, after those before it. Only an event that grows the state is refused
//! ([`is_growth`]): at a limit, everything can still be released, stopped, changed to something shorter, and deleted.
//! `docs/security.md` lists the limits; a test compares it with this table.

use std::collections::HashMap;
use std::io;

use nomad_csi_claims::state::{Event, State, StoredRecord, Subject, Table, is_growth};
use nomad_csi_model::{LimitField, set_limit};

/// The state has as much as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{name}` of {limit} is reached")]
pub struct LimitReached {
    /// The name of the limit.
    pub name: &'static str,
    /// Its value.
    pub limit: usize,
}

/// The limits of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLimits {
    /// Variables.
    pub variables: usize,
    /// Bytes of all variables, sealed.
    pub variable_bytes: usize,
    /// Namespaces.
    pub namespaces: usize,
    /// Bytes of all namespaces with their values.
    pub namespace_bytes: usize,
    /// Policies and tokens of the ACL.
    pub acl: usize,
    /// Bytes of all policies and tokens of the ACL.
    pub acl_bytes: usize,
    /// Jobs, also purged ones whose allocations are left.
    pub jobs: usize,
    /// Bytes of all jobs with their evaluations and earlier versions.
    pub job_bytes: usize,
    /// Allocations, also ended ones that are not forgotten.
    pub allocations: usize,
    /// Volumes.
    pub volumes: usize,
    /// Bytes of all volumes.
    pub volume_bytes: usize,
}

impl Default for StateLimits {
    fn default() -> Self {
        Self {
            variables: 20_000,
            variable_bytes: 64 << 20,
            namespaces: 2_000,
            namespace_bytes: 16 << 20,
            acl: 20_000,
            acl_bytes: 16 << 20,
            jobs: 10_000,
            job_bytes: 128 << 20,
            allocations: 100_000,
            volumes: 250_000,
            volume_bytes: 512 << 20,
        }
    }
}

/// One limit of the state.
pub(super) type StateLimitField = LimitField<StateLimits>;

/// All limits, in the order of the documentation.
pub const STATE_LIMITS: &[StateLimitField] = &[
    StateLimitField::number("variables", "variables", (1, 1 << 30), |limits| &mut limits.variables),
    StateLimitField::size(
        "variable-bytes",
        "all variables, sealed",
        (1 << 10, 1 << 36),
        |limits| &mut limits.variable_bytes,
    ),
    StateLimitField::number("namespaces", "namespaces", (1, 1 << 30), |limits| {
        &mut limits.namespaces
    }),
    StateLimitField::size(
        "namespace-bytes",
        "all namespaces with their values",
        (1 << 10, 1 << 36),
        |limits| &mut limits.namespace_bytes,
    ),
    StateLimitField::number("acl", "policies and tokens of the ACL", (8, 1 << 30), |limits| {
        &mut limits.acl
    }),
    StateLimitField::size(
        "acl-bytes",
        "all policies and tokens of the ACL",
        (1 << 10, 1 << 36),
        |limits| &mut limits.acl_bytes,
    ),
    StateLimitField::number(
        "jobs",
        "jobs, also purged ones whose allocations are left",
        (1, 1 << 30),
        |limits| &mut limits.jobs,
    ),
    StateLimitField::size(
        "job-bytes",
        "all jobs with their evaluations and earlier versions",
        (1 << 10, 1 << 36),
        |limits| &mut limits.job_bytes,
    ),
    StateLimitField::number(
        "allocations",
        "allocations, also ended ones that are not forgotten",
        (1, 1 << 30),
        |limits| &mut limits.allocations,
    ),
    StateLimitField::number("volumes", "volumes", (1, 1 << 30), |limits| &mut limits.volumes),
    StateLimitField::size("volume-bytes", "all volumes", (1 << 10, 1 << 36), |limits| {
        &mut limits.volume_bytes
    }),
];

impl StateLimits {
    /// Sets a limit from `NAME=VALUE`; `None` if no limit of the state has the name.
    pub fn set(&mut self, text: &str) -> Option<Result<(), String>> {
        let name = text.split('=').next().unwrap_or_default().trim();
        let is_known = STATE_LIMITS.iter().any(|field| field.name == name);
        is_known.then(|| set_limit(self, STATE_LIMITS, text))
    }

    /// Returns the limits of a table: its name and number, and the name and bytes.
    fn of(&self, table: Table) -> Option<TableLimits> {
        let limits = |count, bytes| Some(TableLimits { count, bytes });
        match table {
            Table::Variables => {
                limits(("variables", self.variables), Some(("variable-bytes", self.variable_bytes)))
            }
            Table::Namespaces => limits(
                ("namespaces", self.namespaces),
                Some(("namespace-bytes", self.namespace_bytes)),
            ),
            Table::Acl => limits(("acl", self.acl), Some(("acl-bytes", self.acl_bytes))),
            Table::Jobs => limits(("jobs", self.jobs), Some(("job-bytes", self.job_bytes))),
            Table::Volumes => {
                limits(("volumes", self.volumes), Some(("volume-bytes", self.volume_bytes)))
            }
            Table::Allocs => limits(("allocations", self.allocations), None),
            Table::Claims | Table::Nodes | Table::Plugins => None,
        }
    }
}

/// The limits of one table, with their names.
struct TableLimits {
    count: (&'static str, usize),
    bytes: Option<(&'static str, usize)>,
}

/// How many objects and bytes the limited tables have.
#[derive(Clone, Debug, Default)]
pub(super) struct StateSizes {
    /// The bytes of each object.
    objects: HashMap<Subject, usize>,
    tables: HashMap<Table, TableSize>,
    /// The objects that were admitted since the last write, with the size before.
    admitted: Vec<(Table, Subject, Option<usize>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TableSize {
    count: usize,
    bytes: usize,
}

impl StateSizes {
    /// Measures a whole state.
    pub(super) fn of(state: &State) -> Self {
        let mut sizes = Self::default();
        sizes.note(state, state.all_subjects());
        sizes
    }

    /// Forgets what was admitted and not written.
    pub(super) fn undo(&mut self) {
        self.undo_to(0);
    }

    fn undo_to(&mut self, count: usize) {
        while self.admitted.len() > count
            && let Some((table, subject, before)) = self.admitted.pop()
        {
            self.set(table, subject, before);
        }
    }

    /// Measures what has changed with a write.
    pub(super) fn note(&mut self, state: &State, changed: impl IntoIterator<Item = Subject>) {
        self.admitted.clear();
        let limits = StateLimits::default();
        for subject in changed {
            let (table, ..) = subject.place();
            let Some(limits) = limits.of(table) else {
                continue;
            };
            let record = state.stored(&subject);
            let size = record.map(|record| match limits.bytes {
                Some(_) => record_bytes(&record),
                None => 0,
            });
            self.set(table, subject, size);
        }
    }

    fn set(&mut self, table: Table, subject: Subject, size: Option<usize>) -> Option<usize> {
        let of_table = self.tables.entry(table).or_default();
        let before = match size {
            Some(size) => {
                of_table.count += 1;
                of_table.bytes += size;
                self.objects.insert(subject, size)
            }
            None => self.objects.remove(&subject),
        };
        if let Some(before) = before {
            of_table.count -= 1;
            of_table.bytes -= before;
        }
        before
    }

    /// Checks the events of one commit against the limits, and counts them for the next ones.
    ///
    /// # Errors
    /// If an event adds an object or bytes beyond a limit. None is counted then.
    pub(super) fn admit(
        &mut self,
        limits: &StateLimits,
        events: &[Event],
    ) -> Result<(), LimitReached> {
        if !is_growth(events) {
            return Ok(());
        }
        let before = self.admitted.len();
        for removed in events.iter().filter_map(|event| event.kind.removal()) {
            let (table, ..) = removed.place();
            let size = self.set(table, removed.clone(), None);
            self.admitted.push((table, removed, size));
        }
        let mut each = events.iter();
        let admitted = each.try_for_each(|event| self.admit_one(limits, event));
        if admitted.is_err() {
            self.undo_to(before);
        }
        admitted
    }

    fn admit_one(&mut self, limits: &StateLimits, event: &Event) -> Result<(), LimitReached> {
        let Some(subject) = event.kind.growth() else {
            return Ok(());
        };
        let (table, ..) = subject.place();
        let Some(limits) = limits.of(table) else {
            return Ok(());
        };
        let before = self.objects.get(&subject).copied();
        let kept = match event.kind.keeps_earlier() {
            true => before.unwrap_or(0),
            false => 0,
        };
        let size = match limits.bytes {
            Some(_) => byte_count(&event.kind) + kept,
            None => 0,
        };
        let of_table = self.tables.get(&table).copied().unwrap_or_default();
        let count = of_table.count + usize::from(before.is_none());
        let bytes = of_table.bytes - before.unwrap_or(0) + size;
        let (name, limit) = limits.count;
        if before.is_none() && count > limit {
            return Err(LimitReached { name, limit });
        }
        if let Some((name, limit)) = limits.bytes
            && bytes > limit
            && size > before.unwrap_or(0)
        {
            return Err(LimitReached { name, limit });
        }
        let before = self.set(table, subject.clone(), Some(size));
        self.admitted.push((table, subject, before));
        Ok(())
    }
}

fn record_bytes(record: &StoredRecord) -> usize {
    match record {
        StoredRecord::Acl(record) => byte_count(&**record),
        StoredRecord::Alloc(_, record) => byte_count(record),
        StoredRecord::Claims(record) => byte_count(&**record),
        StoredRecord::Job(record) => byte_count(&**record),
        StoredRecord::Namespace(record) => byte_count(&**record),
        StoredRecord::Node(record) => byte_count(&**record),
        StoredRecord::Plugin(_, record) => byte_count(record),
        StoredRecord::Variable(record) => byte_count(&**record),
        StoredRecord::Volume(record) => byte_count(&**record),
    }
}

/// Counts the bytes of a value as JSON, as it is stored.
fn byte_count(value: &impl serde::Serialize) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) | Err(_) => counter.0,
    }
}

#[cfg(test)]
mod tests;
