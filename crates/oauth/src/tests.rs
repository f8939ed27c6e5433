mod documents;
mod flow;
mod play;
mod renewal;
mod texts;
