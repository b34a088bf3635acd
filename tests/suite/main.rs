//! Everything that needs no privileges. Every file of this folder is a module here.

mod architecture;
