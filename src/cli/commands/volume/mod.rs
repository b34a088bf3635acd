//! `volume …`; `create` and `register` are `super::submit`, which `apply` is too.

pub(crate) mod init;
pub(crate) mod remove;
pub(crate) mod status;
