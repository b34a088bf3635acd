//! Progress: a moving line per volume on a terminal, plain lines elsewhere.
//!
//! A terminal shows what is under way and for how long; what has ended becomes an ordinary line
//! above. Where lines cannot move, each beginning and each end is a line, without times, so that two
//! runs can be compared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::printer::{Printer, one_line};
use crate::plan::{Action, Plan};
use crate::reconcile::{Ending, Outcome, Watch};

/// Shows how a plan is carried out.
pub(crate) struct Progress {
    printer: Arc<Printer>,
    volumes: Vec<(String, Verb)>,
    bars: Option<MultiProgress>,
    running: Mutex<BTreeMap<usize, ProgressBar>>,
}

#[derive(Clone, Copy)]
struct Verb {
    doing: &'static str,
    done: &'static str,
}

impl Progress {
    /// For the volumes of a plan.
    pub(crate) fn new(printer: &Arc<Printer>, plan: &Plan) -> Self {
        let volumes = plan
            .volumes
            .iter()
            .map(|planned| (one_line(&planned.key.to_string()), verb(&planned.action)))
            .collect();
        let bars = moving_lines(printer);
        printer.set_bars(bars.clone());
        Self {
            printer: Arc::clone(printer),
            volumes,
            bars,
            running: Mutex::default(),
        }
    }

    fn take(&self, position: usize) -> Option<ProgressBar> {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&position)
    }

    fn end_line(&self, position: usize, outcome: &Outcome, elapsed: Option<Duration>) -> String {
        let (key, verb) = &self.volumes[position];
        let (style, what) = match &outcome.ending {
            Ending::Done(reading) => {
                let external = reading
                    .as_ref()
                    .and_then(|reading| reading.value.external_id.clone());
                let external = external.map_or_else(String::new, |id| {
                    format!(", external ID {}", one_line(id.as_str()))
                });
                (GREEN, format!("{}{external}", verb.done))
            }
            Ending::Removed => (GREEN, verb.done.to_owned()),
            Ending::Unchanged => (Style::new(), "unchanged".to_owned()),
            Ending::Blocked => (RED, "blocked".to_owned()),
            Ending::Stale(_) => (RED, "left alone: it has changed meanwhile".to_owned()),
            Ending::Held(_) => (RED, "held back".to_owned()),
            Ending::Failed(_) => (RED, "failed".to_owned()),
            Ending::NotBegun => (YELLOW, "not begun".to_owned()),
        };
        let after = elapsed.map_or_else(String::new, |elapsed| {
            format!(" ({:.1} s)", elapsed.as_secs_f64())
        });
        format!("volume {key}: {style}{what}{style:#}{after}")
    }
}

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();

fn verb(action: &Action) -> Verb {
    match action {
        Action::Create(_) => Verb {
            doing: "creating",
            done: "created",
        },
        Action::Register(_) => Verb {
            doing: "registering",
            done: "registered",
        },
        Action::Update(_) => Verb {
            doing: "updating",
            done: "updated",
        },
        Action::Expand(_) => Verb {
            doing: "expanding",
            done: "expanded",
        },
        Action::Replace(_) => Verb {
            doing: "replacing",
            done: "replaced",
        },
        Action::Deregister => Verb {
            doing: "deregistering",
            done: "deregistered",
        },
        Action::DeleteData => Verb {
            doing: "deleting",
            done: "deleted",
        },
        Action::Unchanged | Action::Waits(_) | Action::Blocked(_) => Verb {
            doing: "",
            done: "",
        },
    }
}

impl Watch for Progress {
    fn began(&self, position: usize) {
        let (key, verb) = &self.volumes[position];
        let Some(bars) = &self.bars else {
            self.printer.talk(&format!("volume {key}: {}", verb.doing));
            return;
        };
        let bar = bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("volume {key}: {}", verb.doing));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(position, bar);
    }

    fn ended(&self, position: usize, outcome: &Outcome) {
        let bar = self.take(position);
        let elapsed = bar.as_ref().map(ProgressBar::elapsed);
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        self.printer
            .talk(&self.end_line(position, outcome, elapsed));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in std::mem::take(&mut *running).into_values() {
            bar.finish_and_clear();
        }
        self.printer.set_bars(None);
    }
}

/// Lines that move below everything else that is printed, where lines can move.
pub(super) fn moving_lines(printer: &Arc<Printer>) -> Option<MultiProgress> {
    printer.is_live().then(|| {
        let target =
            ProgressDrawTarget::term_like_with_hz(Box::new(Lines(Arc::clone(printer))), 10);
        MultiProgress::with_draw_target(target)
    })
}

/// The printer as indicatif wants a terminal.
struct Lines(Arc<Printer>);

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl Lines {
    fn steer(&self, count: usize, letter: char) -> std::io::Result<()> {
        if count > 0 {
            self.0.draw(&format!("\u{1b}[{count}{letter}"));
        }
        Ok(())
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        u16::try_from(self.0.columns()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, n: usize) -> std::io::Result<()> {
        self.steer(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> std::io::Result<()> {
        self.steer(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> std::io::Result<()> {
        self.steer(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> std::io::Result<()> {
        self.steer(n, 'D')
    }

    fn write_line(&self, s: &str) -> std::io::Result<()> {
        self.0.draw(&format!("{s}\n"));
        Ok(())
    }

    fn write_str(&self, s: &str) -> std::io::Result<()> {
        self.0.draw(s);
        Ok(())
    }

    fn clear_line(&self) -> std::io::Result<()> {
        self.0.draw("\r\u{1b}[2K");
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}
