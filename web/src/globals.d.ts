declare module "virtual:colors.css";
/** whether this is the build of pages that are saved */
declare const __SITE__: boolean;
