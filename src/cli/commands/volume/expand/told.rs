//! How it ended: the size before and now, and who has yet to notice.

use crate::cli::args::ExpandArguments;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::ui::{one_line, volume_detail};
use crate::diagnostic::SourceMap;
use crate::model::{Bytes, Volume};
use crate::ports::Reading;
use crate::reconcile::{Ending, Outcome};

/// Says how it ended.
pub(super) fn tell(
    context: &Context,
    arguments: &ExpandArguments,
    existing: &Volume,
    outcome: Option<Outcome>,
) -> Exit {
    let Some(outcome) = outcome else {
        return Exit::Done;
    };
    let mut remarks = outcome.warnings;
    let shown = one_line(&existing.key().to_string());
    let exit = match outcome.ending {
        Ending::Unchanged => {
            let line = format!("volume {shown}: is as large as that already, nothing to do");
            context.printer.talk(&line);
            Exit::Done
        }
        Ending::Done(reading) => {
            if let Some(reading) = reading {
                grown(context, arguments, existing, &reading);
            }
            Exit::Done
        }
        Ending::Stale(why) | Ending::Held(why) => {
            remarks.push(why);
            Exit::Blocked
        }
        Ending::Failed(why) => {
            remarks.push(why);
            Exit::Error
        }
        Ending::Removed | Ending::Blocked => Exit::Blocked,
        Ending::NotBegun => Exit::Interrupted,
    };
    context.report(&remarks.into_iter().collect(), &SourceMap::default());
    exit
}

/// The provider's half is done; that of the nodes comes where the volume is used.
fn grown(
    context: &Context,
    arguments: &ExpandArguments,
    existing: &Volume,
    reading: &Reading<Volume>,
) {
    let now = &reading.value;
    let key = one_line(&now.key().to_string());
    let size = |size: Bytes| {
        if size.is_zero() {
            "unknown".to_owned()
        } else {
            size.binary()
        }
    };
    context.printer.talk(&format!(
        "volume {key}: size {} -> {}",
        size(existing.capacity),
        size(now.capacity)
    ));
    let users = match now.claimants().count() {
        0 => None,
        1 => Some("1 allocation uses it".to_owned()),
        count => Some(format!("{count} allocations use it")),
    };
    if let Some(users) = users {
        context.printer.talk(&format!(
            "volume {key}: {users}; the file system grows on each node that has it mounted, which the server has done there or does when it is mounted next: check with `df` in the allocation"
        ));
    }
    let output = &arguments.output.output;
    let text = output
        .one(&reading.document)
        .unwrap_or_else(|| volume_detail(now, &context.now(), output.is_wide()));
    context.printer.data(&text);
}
