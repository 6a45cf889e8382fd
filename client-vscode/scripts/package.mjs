// Packs dist/ and media/ as a .vsix: a zip with the extension's files and two small manifests. A folder in place of dist/
// and a file in place of gloveport-VERSION.vsix can be named.
import { createWriteStream } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";

const FIXED_TIME = new Date("2020-01-01T00:00:00Z"); // the same tree gives the same bytes
const [dist = "dist", named] = process.argv.slice(2);
const manifest = JSON.parse(await readFile("package.json", "utf8"));
const shipped = structuredClone(manifest);
for (const key of ["scripts", "devDependencies", "private", "type"]) {
  delete shipped[key];
}

const escape = (text) => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
const TYPES = {
  cjs: "application/javascript",
  js: "application/javascript",
  css: "text/css",
  json: "application/json",
  svg: "image/svg+xml",
  md: "text/markdown",
  txt: "text/plain",
  png: "image/png",
};

const vsix = `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="${escape(manifest.name)}" Version="${escape(manifest.version)}" Publisher="${escape(manifest.publisher)}"/>
    <DisplayName>${escape(manifest.displayName)}</DisplayName>
    <Description xml:space="preserve">${escape(manifest.description)}</Description>
    <Tags>${escape(manifest.keywords.join(","))}</Tags>
    <Categories>${escape(manifest.categories.join(","))}</Categories>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${escape(manifest.engines.vscode)}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="${escape(manifest.extensionKind.join(","))}"/>
    </Properties>
    <License>extension/LICENSE.txt</License>
    <Icon>extension/${escape(manifest.icon)}</Icon>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Changelog" Path="extension/CHANGELOG.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Icons.Default" Path="extension/${escape(manifest.icon)}" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
`;
const types = `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
${Object.entries({ ...TYPES, vsixmanifest: "text/xml" })
  .map(([extension, type]) => `  <Default Extension="${extension}" ContentType="${type}"/>`)
  .join("\n")}
</Types>
`;

const zip = new ZipFile();
const add = (content, name) => zip.addBuffer(Buffer.from(content), name, { mtime: FIXED_TIME, forceDosTimestamp: true });
add(vsix, "extension.vsixmanifest");
add(types, "[Content_Types].xml");
add(`${JSON.stringify(shipped, null, 2)}\n`, "extension/package.json");
add(await readFile("../LICENSE"), "extension/LICENSE.txt");
add(await readFile("README.md"), "extension/README.md");
add(await readFile("../CHANGELOG.md"), "extension/CHANGELOG.md");
for (const [folder, packed] of [
  [dist, "dist"],
  ["media", "media"],
]) {
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    if (/\.[a-zA-Z]+$/.test(name)) {
      add(await readFile(`${folder}/${name}`), `extension/${packed}/${name}`);
    }
  }
}
zip.end();
const target = named ?? `gloveport-${manifest.version}.vsix`;
await pipeline(zip.outputStream, createWriteStream(target));
console.log(target);
