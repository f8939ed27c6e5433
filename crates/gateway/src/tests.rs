mod catalog;
mod holding;
mod link;
mod pins;
mod seal;
mod support;
mod words;
