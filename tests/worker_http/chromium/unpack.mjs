// Unpacks the browser and the libraries that it needs into TMPDIR, and prints the browser's path.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
