//! Why a file or directory is not private: what was found, its owner, and what to do.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic};

/// A path that this program does not use, because another user could change what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {problem}", path.display())]
pub struct NotPrivate {
    /// The path.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

/// The problem of a path. Users are numbers, because names depend on the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another user owns it.
    #[error("belongs to user ID {owner} (mode {mode:04o}), and this process runs as user ID {own}")]
    Foreign {
        /// The owner.
        owner: u32,
        /// The permissions.
        mode: u32,
        /// The user of this process.
        own: u32,
    },
    /// Its group or every user can write to it.
    #[error("is writable by other users (owner: user ID {owner}, mode {mode:04o})")]
    Writable {
        /// The owner.
        owner: u32,
        /// The permissions.
        mode: u32,
    },
    /// It is a symbolic link.
    #[error("is a symbolic link that belongs to user ID {owner}, and links are not followed here")]
    Link {
        /// The owner of the link.
        owner: u32,
    },
    /// It is not what is expected.
    #[error("is not a {expected} (owner: user ID {owner}, mode {mode:04o})")]
    WrongKind {
        /// The expected kind: `directory`, `regular file`, `socket`.
        expected: &'static str,
        /// The owner.
        owner: u32,
        /// The permissions.
        mode: u32,
    },
    /// Another user listens on the socket.
    #[error("is answered by a process of user ID {owner}, and this process runs as user ID {own}")]
    ForeignPeer {
        /// The user of the listening process.
        owner: u32,
        /// The user of this process.
        own: u32,
    },
}

impl NotPrivate {
    /// Returns what to do about it.
    pub fn help(&self) -> String {
        let path = self.path.display();
        match &self.problem {
            Problem::Foreign { own, .. } => format!(
                "use a path of your own; if you trust what is there, run `chown {own} {path}` first"
            ),
            Problem::Writable { .. } => {
                format!("run `chmod go-w {path}` if you trust what is there, or use another path")
            }
            Problem::Link { .. } => format!(
                "find out who created the link `{path}`, remove it, and use the real path or a bind mount"
            ),
            Problem::WrongKind { .. } => format!("move `{path}` away, or use another path"),
            Problem::ForeignPeer { .. } => {
                format!(
                    "find the process with `ss -xlp src {path}`, and use a directory of your own"
                )
            }
        }
    }

    /// Returns the diagnostic of a command that cannot do `action` because of this.
    pub fn diagnostic(&self, action: &str) -> Diagnostic {
        Diagnostic::error(Code::FileNotPrivate, format!("cannot {action}: {self}"))
            .help(self.help())
    }

    /// Finds this problem in an error or its sources.
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // The source of an I/O error is the source of what it wraps.
            let wrapped = error.downcast_ref::<io::Error>();
            if let Some(inner) = wrapped.and_then(io::Error::get_ref) {
                next = Some(inner);
                continue;
            }
            next = error.source();
        }
        None
    }

    /// Explains an error in one sentence, with what to do if the path is not private.
    pub fn explain(error: &io::Error) -> String {
        match Self::find(error) {
            Some(refused) => format!("{refused}; {}", refused.help()),
            None => error.to_string(),
        }
    }

    pub(super) fn at(path: &Path, problem: Problem) -> io::Error {
        Self { path: path.to_owned(), problem }.into()
    }
}

impl From<NotPrivate> for io::Error {
    fn from(problem: NotPrivate) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_problem_is_found_below_other_errors() {
        let inner =
            NotPrivate { path: "/data/agent.lock".into(), problem: Problem::Link { owner: 1000 } };
        let wrapped = io::Error::other(io::Error::from(inner.clone()));
        assert_eq!(NotPrivate::find(&wrapped), Some(&inner));
        assert_eq!(NotPrivate::find(&io::Error::other("else")), None);
    }

    #[test]
    fn the_message_names_path_owner_and_mode_and_what_to_do() {
        let problem = NotPrivate {
            path: "/data".into(),
            problem: Problem::Foreign { owner: 1000, mode: 0o755, own: 0 },
        };
        let problem = problem.diagnostic("use the data directory");
        assert_eq!(problem.code, Code::FileNotPrivate);
        assert_eq!(
            problem.message,
            "cannot use the data directory: `/data` belongs to user ID 1000 (mode 0755), and this process runs as user ID 0"
        );
        assert_eq!(
            problem.help,
            ["use a path of your own; if you trust what is there, run `chown 0 /data` first"]
        );
    }
}
