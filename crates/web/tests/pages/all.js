// Runs all tests of modules that do not have their own page.

import "./state.js";
import "./reopening.js";
import "./following.js";
import "./markdown.js";
import "./terminal.js";
import "./code.js";
import "./elements.js";
import "./calls.js";
import "./requests.js";
import "./reference.js";
import { runAll } from "./check.js";

runAll();
