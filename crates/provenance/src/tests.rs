mod answers;
mod draw;
mod forms;
mod plans;
mod roles;
mod rules;
mod seals;
mod world;
