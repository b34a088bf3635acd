//! Which files a person means.
