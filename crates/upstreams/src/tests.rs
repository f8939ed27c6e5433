mod catalog;
mod link;
mod pins;
mod support;
mod words;
