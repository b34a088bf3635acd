//! Problems that many volumes of one block have: reported once, with the number of the others.
//!
//! Ten thousand volumes of one block with one mistake are one mistake. Problems with the same code, place and message
//! become one; of those that differ in their message only, which names the volume, the first three are kept.

use std::collections::HashMap;

use super::origin::Origin;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// The number of problems of one kind and place that are shown of a block.
const SHOWN: usize = 3;

/// Collects the problems of the volumes of one block.
#[derive(Default)]
pub(super) struct RepeatedProblems {
    /// In the order of the first of each kind.
    kinds: Vec<Vec<Repeated>>,
    index: HashMap<(Code, Option<Span>), usize>,
    /// The number of problems of each kind that are not shown.
    omitted: Vec<usize>,
}

struct Repeated {
    id: String,
    origin: Origin,
    problem: Diagnostic,
    others: usize,
}

impl RepeatedProblems {
    /// Adds the problems of one volume.
    pub(super) fn add(&mut self, id: &str, origin: &Origin, problems: Diagnostics) {
        for problem in problems {
            let kind = (problem.code, problem.labels.first().map(|label| label.span));
            let next = self.kinds.len();
            let at = *self.index.entry(kind).or_insert(next);
            if at == next {
                self.kinds.push(vec![]);
                self.omitted.push(0);
            }
            let (Some(found), Some(omitted)) = (self.kinds.get_mut(at), self.omitted.get_mut(at))
            else {
                continue;
            };
            let shown = found.len();
            match found.iter_mut().find(|one| one.problem == problem) {
                Some(same) => same.others += 1,
                None if shown < SHOWN => {
                    let (id, origin) = (id.to_owned(), origin.clone());
                    found.push(Repeated { id, origin, problem, others: 0 });
                }
                None => *omitted += 1,
            }
        }
    }

    /// Returns the problems with their trails.
    pub(super) fn into_diagnostics(self) -> Diagnostics {
        let mut all = Diagnostics::default();
        for (found, omitted) in self.kinds.into_iter().zip(self.omitted) {
            let last = found.len().saturating_sub(1);
            for (at, one) in found.into_iter().enumerate() {
                let problem = one.origin.explain(&one.id, one.problem, one.others);
                all.push(match (at == last, omitted) {
                    (true, 1..) => problem
                        .note(format!("{omitted} more volumes of this block have such a problem")),
                    _ => problem,
                });
            }
        }
        all
    }
}
