// Runs every test of the modules that have no page of their own.

import "./state.js";
import "./reopening.js";
import "./following.js";
import "./markdown.js";
import "./terminal.js";
import "./code.js";
import "./elements.js";
import "./requests.js";
import "./reference.js";
import { runAll } from "./check.js";

runAll();
