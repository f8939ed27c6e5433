mod catalog;
mod link;
mod seal;
